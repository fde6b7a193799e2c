"""Gathers as equations of a cluster: of single elements, functions of their indices element by element, and of rows, which are
contiguous from where an index vector says.

The array that one reads is a whole, which the cluster does not make. Its index vectors may be made in the cluster, by a
concatenation of their components.
"""

from __future__ import annotations

from collections.abc import Sequence

from quire.ir import dtypes
from quire.ir.jaxpr import Atom, Eqn
from quire.ir.primitives import indexing as ix
from quire.ir.rectangles import joins_components


def is_gather_of_elements(e: Eqn, least: int) -> bool:
    """Whether an equation gathers single elements, at least so many."""
    if e.primitive is not ix.gather_p or e.params["dimension_numbers"].offset_dims:
        return False
    x, out = e.inputs[0].aval, e.outputs[0].aval
    return out.size >= max(1, least) and 0 < x.size < 1 << 31 and x.ndim > 0 and x.dtype in dtypes.SHORT


def is_gather_of_rows(e: Eqn) -> bool:
    """Whether an equation gathers windows that lie along the last dimensions of its result, neighbours in the operand too."""
    if e.primitive is not ix.gather_p:
        return False
    d, x, out = e.params["dimension_numbers"], e.inputs[0].aval, e.outputs[0].aval
    first = out.ndim - len(d.offset_dims)
    last = x.ndim - 1 not in (*d.collapsed_slice_dims, *d.operand_batching_dims)
    return (
        0 < first < out.ndim and tuple(d.offset_dims) == tuple(range(first, out.ndim)) and last
        and 0 < x.size < 1 << 31 and x.dtype in dtypes.SHORT
    )  # fmt: skip


def read_anywhere(e: Eqn) -> Sequence[Atom]:
    """What an equation of a cluster reads at places that the cluster computes."""
    return e.inputs[:1] if e.primitive is ix.gather_p else ()


def joined_for(e: Eqn, readers: Sequence[Eqn]) -> Sequence[Eqn]:
    """The gathers, if a concatenation joins components to index vectors that only gathers read; else none."""
    fits = all(r.primitive is ix.gather_p and e.outputs[0] is r.inputs[1] is not r.inputs[0] for r in readers)
    return readers if fits and joins_components(e) else ()


__all__ = ["is_gather_of_elements", "is_gather_of_rows", "joined_for", "read_anywhere"]
