"""Vectorisation of other packages' primitives (`jax.interpreters.batching`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from quire.ir.avals import aval_of
from quire.ir.primitive import Primitive
from quire.ir.primitives import structural as st
from quire.passes.batching.rules import Axis, broadcast_batch, move_dim
from quire.passes.batching.rules import batching as _table

from ..absent_names import module_getattr
from .registries import Registry, Rule, values

Value = Any
Dim = Any

not_mapped = None
"""The batch dimension of an operand that is the same for all lanes."""
AxisData = Axis


def _dims(p: Primitive, out: Any, dims: Any) -> tuple[Any, Any]:
    if not p.multiple_results:
        return out, dims
    dims = [dims] * len(out) if dims is None or isinstance(dims, int) else list(dims)
    return list(out), dims


def _fancy_inward(p: Primitive, rule: Rule) -> Rule:
    def apply(axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], **params: Any) -> tuple[Any, Any]:
        return _dims(p, *rule(axis, values(operands), list(dims), **params))

    return apply


def _axis_inward(p: Primitive, rule: Rule) -> Rule:
    def apply(axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], **params: Any) -> tuple[Any, Any]:
        return _dims(p, *rule(axis.size, axis.name, None, values(operands), list(dims), **params))

    return apply


def _plain_inward(p: Primitive, rule: Rule) -> Rule:
    def apply(axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], **params: Any) -> tuple[Any, Any]:
        return _dims(p, *rule(values(operands), list(dims), **params))

    return apply


def _unbatched(p: Primitive, operands: Sequence[Value], params: dict[str, Any]) -> tuple[Any, Any]:
    out = p.bind(*operands, **params)
    return (out, [None] * len(out)) if p.multiple_results else (out, None)


def _size(operands: Sequence[Value], dims: Sequence[Dim]) -> int:
    return next(aval_of(x).shape[d] for x, d in zip(operands, dims) if d is not None)


def _plain_outward(p: Primitive, rule: Rule) -> Rule:
    def apply(operands: Sequence[Value], dims: Sequence[Dim], **params: Any) -> tuple[Any, Any]:
        if all(d is None for d in dims):
            return _unbatched(p, operands, params)
        return rule(Axis(_size(operands, dims)), operands, dims, **params)

    return apply


def _axis_outward(p: Primitive, rule: Rule) -> Rule:
    def apply(size: int, name: Any, _: Any, operands: Sequence[Value], dims: Sequence[Dim], **params: Any) -> Any:
        if all(d is None for d in dims):
            return _unbatched(p, operands, params)
        return rule(Axis(size, name), operands, dims, **params)

    return apply


primitive_batchers = Registry(_table, _plain_inward, _plain_outward)
"""``primitive_batchers[p] = rule``: ``rule(operands, dims, **params)`` gives the results and their batch dimensions.

A dimension is None for an operand, or a result, that is the same for all lanes.
"""

axis_primitive_batchers = Registry(_table, _axis_inward, _axis_outward)
"""The same with the mapped axis: ``rule(axis_size, axis_name, None, operands, dims, **params)``."""

fancy_primitive_batchers = Registry(_table, _fancy_inward, lambda p, rule: rule)
"""The same with all that is known of the axis: ``rule(axis, operands, dims, **params)``, `axis` having size and name."""


def defvectorized(prim: Primitive) -> None:
    """A primitive that works on each element, of operands of one shape."""
    primitive_batchers[prim] = partial(vectorized_batcher, prim)


def vectorized_batcher(
    prim: Primitive, operands: Sequence[Value], dims: Sequence[Dim], **params: Any
) -> tuple[Any, Any]:
    """The rule of `defvectorized`. Raises ValueError where the operands are not batched alike."""
    if any(d != dims[0] for d in dims):
        raise ValueError(f"{prim.name}: defvectorized needs operands with one batch dimension, got {list(dims)}")
    out = prim.bind(*operands, **params)
    return (out, [dims[0]] * len(out)) if prim.multiple_results else (out, dims[0])


def defbroadcasting(prim: Primitive) -> None:
    """A primitive that works on each element, of operands whose dimensions of size 1 are repeated."""
    primitive_batchers[prim] = partial(broadcast_batcher, prim)


def broadcast_batcher(
    prim: Primitive, operands: Sequence[Value], dims: Sequence[Dim], **params: Any
) -> tuple[Any, Any]:
    """The rule of `defbroadcasting`."""
    shapes = [aval_of(x).shape for x in operands]
    shape, dim = next((s, d) for s, d in zip(shapes, dims) if d is not None)
    if all(s == shape and d == dim for s, d in zip(shapes, dims) if s):
        out = prim.bind(*operands, **params)
        return (out, [dim] * len(out)) if prim.multiple_results else (out, dim)
    moved = [bdim_at_front(x, d, 1) if s else x for x, d, s in zip(operands, dims, shapes)]
    rank = max(aval_of(x).ndim for x in moved)
    aligned = [_with_rank(x, rank) if d is not None else x for x, d in zip(moved, dims)]
    out = prim.bind(*aligned, **params)
    return (out, [0] * len(out)) if prim.multiple_results else (out, 0)


def _with_rank(x: Value, rank: int) -> Value:
    aval = aval_of(x)
    return x if aval.ndim == rank else st.reshape(x, (*aval.shape, *(1,) * (rank - aval.ndim)))


def defreducer(prim: Primitive, *_: Any) -> None:
    """A primitive with one operand and the parameter `axes`, which are the dimensions that are reduced."""
    primitive_batchers[prim] = partial(reducer_batcher, prim)


def reducer_batcher(
    prim: Primitive, operands: Sequence[Value], dims: Sequence[Dim], axes: Sequence[int], **params: Any
) -> tuple[Any, Any]:
    """The rule of `defreducer`."""
    (x,), (dim,) = operands, dims
    moved = tuple(a + (dim <= a) for a in axes)
    return prim.bind(x, axes=moved, **params), dim - sum(a < dim for a in moved)


def moveaxis(x: Value, src: Dim, dst: int) -> Value:
    """x with one dimension moved; x itself where there is none to move."""
    if src is None or src == dst:
        return x
    rank = aval_of(x).ndim
    return move_dim(x, src % rank, dst % rank)


def broadcast(x: Value, sz: int, axis: int, *_: Any) -> Value:
    """x repeated along a new dimension of size `sz` at `axis`."""
    return broadcast_batch(x, sz, axis % (aval_of(x).ndim + 1))


def bdim_at_front(x: Value, bdim: Dim, size: int, *_: Any) -> Value:
    """x with its batch dimension first; repeated where it has none."""
    return broadcast(x, size, 0) if bdim is None else moveaxis(x, bdim, 0)


def matchaxis(axis_data: Any, src: Dim, dst: Dim, x: Value, sum_match: bool = False) -> Value:
    """x with its batch dimension moved from `src` to `dst`, either of which may be None.

    `axis_data` is the mapped axis; with `sum_match` a batched value that is to have no dimension is summed.

    Raises ValueError for a batched value that is to have no dimension, without `sum_match`.
    """
    from quire.ir.primitives import reductions as rd

    if src is None:
        return x if dst is None else broadcast(x, axis_data.size, dst)
    if dst is not None:
        return moveaxis(x, src, dst)
    if sum_match:
        return rd.reduce_sum(x, (src,))
    raise ValueError(f"a value that is batched in dimension {src} was to be the same for all lanes")


def register_vmappable(*_: Any, **__: Any) -> None:
    """Raises NotImplementedError: register the type as a pytree instead, and `vmap` maps its arrays."""
    raise NotImplementedError(
        "batching.register_vmappable: quire maps arrays. Register the type with quire.tree_util.register_pytree_node, and "
        "vmap maps the arrays that it holds"
    )


def unregister_vmappable(*_: Any, **__: Any) -> None:
    """Raises NotImplementedError, as `register_vmappable`."""
    register_vmappable()


Batcher = Callable[..., tuple[Any, Any]]

__all__ = [
    "AxisData", "Batcher", "axis_primitive_batchers", "bdim_at_front", "broadcast", "broadcast_batcher", "defbroadcasting",
    "defreducer", "defvectorized", "fancy_primitive_batchers", "matchaxis", "moveaxis", "not_mapped", "primitive_batchers",
    "reducer_batcher", "register_vmappable", "unregister_vmappable", "vectorized_batcher",
]  # fmt: skip

__getattr__ = module_getattr("quire.interpreters.batching", globals())
