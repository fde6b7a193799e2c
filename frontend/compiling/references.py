"""Compiled functions that take references, or close over some: a program on values, and the references around it.

The program takes what each reference holds and gives what it wrote; the call puts it back. What is written is donated: nobody
else can see the memory, unless it was read, which makes a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quire.ir.primitives import refs
from quire.ir.references import AbstractRef, ConcreteRef
from quire.ir.tracing import eval_jaxpr
from quire.passes.discharge import is_ref, written_refs

from .. import tree_util
from ..arrays.references import check_references, lying_as
from ..arrays.shape_struct import shape_struct
from .tracing import TracedFunction
from .variants import VariantInfo

# The compiled function of some flat function, made as the user's was: (function, names, donated, in and out shardings).
Maker = Callable[[Callable[..., Any], Sequence[str], Sequence[int], Any, Any], Any]


def takes_refs(traced: TracedFunction) -> bool:
    """Whether a traced function takes references or closes over some."""
    return any(map(is_ref, traced.jaxpr.invars))


class ReferenceVariant:
    """One variant of a function with references: its call takes the flat arguments, references among them.

    Attributes:
        values: the compiled function of the values: of the references that are closed over, then of the arguments.
        written: which of its arguments are references that are written, whose new values are its last results.
    """

    __slots__ = ("info", "traced", "values", "written", "call", "_closed_over", "_given", "_names", "_name")

    def __init__(
        self, info: VariantInfo, traced: TracedFunction, name: str, names: Sequence[str], donated: Sequence[int],
        wanted: tuple[Sequence[Any] | None, Sequence[Any] | None], make: Maker,
    ) -> None:  # fmt: skip
        self.info = info
        self.traced = traced
        self._name = name
        self._closed_over = [c for c in traced.captured if isinstance(c, ConcreteRef)]
        n = len(self._closed_over)
        invars = traced.jaxpr.invars
        first = len(traced.captured)
        leaves = invars[first:]
        self._given = [i for i, v in enumerate(leaves) if is_ref(v)]
        # Where each input of the jaxpr is among the arguments of the function of values; captured arrays are none.
        order = [i for i, c in enumerate(traced.captured) if isinstance(c, ConcreteRef)]
        position = {i: k for k, i in enumerate([*order, *range(first, len(invars))])}
        self.written = tuple(position[i] for i in written_refs(traced.jaxpr))
        self._names = [*(f"a reference that {name} closes over" for _ in order), *names]
        flat = self._flat(position)
        places_in, places_out = wanted
        self.values = make(
            flat, self._names, sorted({*self.written, *(n + i for i in donated if i not in self._given)}),
            None if places_in is None else (*(None for _ in order), *places_in),
            None if places_out is None else [*places_out, *(None for _ in self.written)],
        )  # fmt: skip
        self.call: Callable[[Sequence[Any]], Any] = self._call

    def _flat(self, position: dict[int, int]) -> Callable[..., list[Any]]:
        """The function of values: it makes the references anew, and gives what they hold at the end."""
        traced, jaxpr = self.traced, self.traced.jaxpr

        def flat(*values: Any) -> list[Any]:
            inputs: list[Any] = []
            made: dict[int, Any] = {}
            for i, v in enumerate(jaxpr.invars):
                x = values[position[i]] if i in position else traced.captured[i]
                if is_ref(v):
                    aval: AbstractRef = v.aval
                    x = made[position[i]] = refs.new_ref_p.bind(x, kind=aval.kind, memory_space=None)
                inputs.append(x)
            out = eval_jaxpr(jaxpr, (), inputs)
            return [*out, *(refs.freeze_p.bind(made[k]) for k in self.written)]

        flat.__name__ = flat.__qualname__ = self._name
        return flat

    def types(self) -> list[Any]:
        """The types of the arguments of the function of values."""
        avals: list[Any] = [r.aval for r in self._closed_over]
        avals += self.traced.jaxpr.in_avals[len(self.traced.captured) :]
        return [shape_struct(a.inner_aval if type(a) is AbstractRef else a) for a in avals]

    def arguments(self, leaves: Sequence[Any]) -> list[Any]:
        """The arguments of the function of values for those of the user's function.

        Raises:
            ValueError: a reference was freed, or occurs twice.
        """
        n = len(self._closed_over)
        names = [*self._names[:n], *(self._names[n + i] for i in self._given)]
        check_references([*self._closed_over, *(leaves[i] for i in self._given)], names, self._name)
        return [r.value for r in self._closed_over] + [x.value if isinstance(x, ConcreteRef) else x for x in leaves]

    def finish(self, leaves: Sequence[Any], out: Sequence[Any]) -> Any:
        """Put back what the references hold now; the user's result."""
        n_out, n = len(out) - len(self.written), len(self._closed_over)
        for k, x in zip(self.written, out[n_out:]):
            ref = self._closed_over[k] if k < n else leaves[k - n]
            ref.value = lying_as(ref.value, x)
        return tree_util.tree_unflatten(self.traced.out_tree, out[:n_out])

    def _call(self, leaves: Sequence[Any]) -> Any:
        self.info.uses += 1
        return self.finish(leaves, self.values(*self.arguments(leaves)))


__all__ = ["ReferenceVariant", "takes_refs"]
