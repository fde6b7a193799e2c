"""What kernels compute: which equations the target can, and which clusters are alike but for size and names."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from quire.ir.dtypes import DType
from quire.ir.jaxpr import Atom, Eqn, Literal, Var
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st

HasForm = Callable[[Primitive, DType], bool]
# What a form may hold beside elementwise equations. Not iota: its elements differ by place.
_MOVES = (st.broadcast_in_dim_p, st.reshape_p)


def forms_of(target: Any) -> HasForm:
    """Which elementwise primitives of which dtypes may be in kernels, as a target says; without a target all may.

    What stays apart is never part of a kernel.
    """

    def has_form(p: Primitive, dtype: DType) -> bool:
        if p.apart or p is ew.stop_gradient_p:
            return False
        return target is None or target.has_form(p, dtype)

    return has_form


def form(eqns: Sequence[Eqn], inputs: Sequence[Var], results: Sequence[Var], size: int) -> Hashable | None:
    """Equal for clusters that a loop over so many elements computes alike; None where an element's place matters.

    `size` is the number of elements of each value that is no scalar.
    """
    number = {v: i for i, v in enumerate((*inputs, *(v for e in eqns for v in e.outputs)))}

    def is_array(a: Atom) -> bool:
        return a.aval.size == size if size > 1 else bool(a.aval.shape)

    def operand(a: Atom) -> Hashable:
        return a if isinstance(a, Literal) else number[a]

    found: list[Hashable] = [(v.aval.dtype, is_array(v)) for v in inputs]
    for e in eqns:
        if e.primitive in _MOVES:
            if e.inputs[0].aval.size > 1 and not is_array(e.inputs[0]):
                return None  # a row or a column, spread
            params = None
        elif e.primitive.family == "elementwise":
            params = tuple(sorted(e.params.items()))
        else:
            return None
        found.append((e.primitive, params, *map(operand, e.inputs), *(v.aval.dtype for v in e.outputs)))
    return (*found, *map(operand, results))


__all__ = ["HasForm", "form", "forms_of"]
