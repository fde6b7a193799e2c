"""What `vjp` returns: a function from the cotangent of a result to those of the arguments, which references may gather."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.references import Ref
from quire.ir.source import current_source, where

from .. import tree_util
from ..arrays.key_array import is_keys
from ..arrays.references import addupdate
from ..arrays.tangents import structure_of_tangents


class _Mark:
    """An object that stands in the place of an array; all of a class are equal, and are empty containers as pytrees."""

    def __init_subclass__(cls) -> None:
        tree_util.register_pytree_node(cls, lambda mark: ((), None), lambda *_: cls())

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def made_keys(self, impl: str) -> _Mark:
        """In the place of an array of keys what it is in the place of their words."""
        return self

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class DontWant(_Mark):
    """Given to `with_refs` for an argument: its cotangent is not wanted."""


class DidntWant(_Mark):
    """Returned for an argument whose cotangent was not wanted."""


class GradValue(_Mark):
    """Given to `with_refs` for an argument: its cotangent is returned."""


class GradRef(_Mark):
    """Returned for an argument whose cotangent was added to a reference."""


class NotNeeded(_Mark):
    """In `Pullback.args_res`, in the place of an argument that the derivative does not need."""


# As `jax.ad` is one.
ad = types.SimpleNamespace(DidntWant=DidntWant, DontWant=DontWant, GradRef=GradRef, GradValue=GradValue)


class Pullback:
    """The pullback of a function at some arguments: called with the cotangent of its result.

    A pytree whose leaves are the residuals, so that a compiled function may return it and take it.

    Args:
        transposed: of the residuals and the cotangent; it holds no arrays itself.
        residuals: what the derivative keeps of the function's values.
        avals: the arguments' types.
        in_tree, out_tree: the trees of the arguments, a tuple, and of the result.
        what: what it is called in messages.
        arguments: the leaves of the arguments.

    Attributes:
        args_res: for each argument a tree like it of the values that are kept, `NotNeeded()` in the place of others. May be
            replaced: by None while the memory is wanted, and by the arguments again before the pullback is called.
        opaque_residuals: what is kept besides.
    """

    def __init__(
        self, transposed: Callable[[Sequence[Any], Any], Sequence[Any]], residuals: Sequence[Any], avals: Sequence[Any],
        in_tree: Any, out_tree: Any, what: str, arguments: Sequence[Any],
    ) -> None:  # fmt: skip
        position = {id(x): i for i, x in reversed(list(enumerate(arguments)))}
        self._transposed = transposed
        self._avals = tuple(avals)
        self._what = what
        self.in_tree = in_tree
        self.out_tree = out_tree
        # For each residual the leaf of the arguments that it is; None for the opaque ones.
        self._sources = tuple(position.get(id(r)) for r in residuals)
        kept = [x if i in self._sources else NotNeeded() for i, x in enumerate(arguments)]
        self.args_res: list[Any] = list(tree_util.tree_unflatten(in_tree, kept))
        self.opaque_residuals: list[Any] = [r for r, s in zip(residuals, self._sources) if s is None]

    def _flatten(self) -> tuple[tuple[Any, ...], Any]:
        rest = (self._transposed, self._avals, self.in_tree, self.out_tree, self._what, self._sources)
        return (self.args_res, self.opaque_residuals), rest

    @staticmethod
    def _unflatten(rest: Any, children: Any) -> Pullback:
        self = object.__new__(Pullback)
        self._transposed, self._avals, self.in_tree, self.out_tree, self._what, self._sources = rest
        self.args_res, self.opaque_residuals = children
        return self

    def _pull(self, cotangent: Any) -> Sequence[Any]:
        opaque = iter(self.opaque_residuals)
        arguments = self._arguments() if any(s is not None for s in self._sources) else ()
        return self._transposed([next(opaque) if s is None else arguments[s] for s in self._sources], cotangent)

    def _arguments(self) -> list[Any]:
        """The leaves of the arguments, as `args_res` has them now."""
        structure, _ = structure_of_tangents(self.in_tree)
        try:
            given = [x.base if is_keys(x) else x for x in structure.flatten_up_to(tuple(self.args_res))]
        except ValueError:
            given = None
        needed = [i for i in self._sources if i is not None]
        if given is None or any(given[i] is None or isinstance(given[i], NotNeeded) for i in needed):
            raise ValueError(
                f"{self._what}: args_res has not the arguments that the derivative needs: expected the structure "
                f"{self.in_tree}, got {tree_util.tree_structure(tuple(self.args_res))}{where(current_source())}"
            )
        return given

    def __repr__(self) -> str:
        return f"<{self._what}: from cotangents of {self.out_tree} to those of {self.in_tree}>"

    def __call__(self, cotangent: Any) -> tuple[Any, ...]:
        """The tuple of the arguments' cotangents.

        Raises:
            ValueError: the cotangent has not the structure of the result; one of its arrays has another shape or dtype than
                that of the result; or `args_res` was replaced by something without the arguments that are needed.
        """
        return tree_util.tree_unflatten(self.in_tree, self._pull(cotangent))

    def with_refs(self, *refs: Any) -> Callable[[Any], tuple[Any, ...]]:
        """The pullback that adds cotangents to references.

        Args:
            refs: for each argument a tree like it, or a leaf for all of it: a reference, to which its cotangent is added;
                `quire.ad.DontWant()`, and it is not computed; anything else, and it is returned.

        Raises:
            ValueError: there is not one for each argument, or a reference has another type than the argument.

        Example:
            >>> import quire
            >>> y, pull = quire.vjp(lambda x, y: x * y, 2.0, 3.0)
            >>> total = quire.new_ref(10.0)
            >>> pull.with_refs(total, quire.ad.DontWant())(1.0), float(total[...])
            ((GradRef(), DidntWant()), 13.0)
        """
        example = tree_util.tree_unflatten(self.in_tree, range(len(self._avals)))
        if len(refs) != len(example):
            raise ValueError(
                f"{self._what}: with_refs takes one tree for each of {len(example)} arguments, got {len(refs)}"
                f"{where(current_source())}"
            )
        try:
            wanted = tree_util.broadcast_prefix(refs, example, is_leaf=lambda x: isinstance(x, _Mark))
        except ValueError as error:
            raise ValueError(
                f"{self._what}: what with_refs takes is not like the arguments{where(current_source())}: {error}"
            ) from None
        for ref, aval in zip(wanted, self._avals, strict=True):
            if isinstance(ref, Ref) and (ref.aval.shape != aval.shape or ref.aval.dtype != aval.dtype):
                raise ValueError(
                    f"{self._what}: a reference that gathers the cotangents of {aval.short()} must be like it, got "
                    f"{ref.aval.short()}{where(current_source())}"
                )

        def pull(cotangent: Any) -> tuple[Any, ...]:
            out: list[Any] = []
            for ref, ct in zip(wanted, self._pull(cotangent), strict=True):
                if isinstance(ref, Ref):
                    if aval_of(ct).dtype != dtypes.float0:
                        addupdate(ref, None, ct)
                    out.append(GradRef())
                else:
                    out.append(DidntWant() if isinstance(ref, DontWant) else ct)
            return tree_util.tree_unflatten(self.in_tree, out)

        return pull


tree_util.register_pytree_node(Pullback, Pullback._flatten, Pullback._unflatten)  # pyright: ignore[reportPrivateUsage]

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue", "NotNeeded", "Pullback", "ad"]
