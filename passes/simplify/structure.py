"""Rules for operations that move elements: chains of them become one, those that do nothing go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from quire.ir.jaxpr import Eqn
from quire.ir.primitive import PRIMITIVES, Primitive
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st

from .rewriter import SPREAD, Rewrite, Rewriter, RuleFunction, Trait, rule


def rule_of(*names: str, when: Iterable[Trait | Primitive] | None = None) -> Callable[[RuleFunction], RuleFunction]:
    """A rule for primitives by name; the ones that do not exist are left out."""
    return rule(*[PRIMITIVES[n] for n in names if n in PRIMITIVES], when=when)


def _elementwise() -> list[Primitive]:
    """Elementwise primitives without parameters that take a scalar beside arrays."""
    exclude = ("select_n", "clamp", "copy", "bitcast_convert_type", "convert_element_type")
    return [p for p in PRIMITIVES.values() if p.family == "elementwise" and not p.params and p.name not in exclude]


# -- broadcast, reshape, transpose ------------------------------------------------------------------------------------


@rule(st.broadcast_in_dim_p)
def broadcast_to_its_own_shape(r: Rewriter, e: Eqn) -> Rewrite:
    (x,) = e.inputs
    return x if x.aval.shape == e.params["shape"] else None


@rule(st.broadcast_in_dim_p, when=(st.broadcast_in_dim_p,))
def broadcast_of_broadcast(r: Rewriter, e: Eqn) -> Rewrite:
    inner = r.producer(e.inputs[0], st.broadcast_in_dim_p)
    if inner is None:
        return None
    dims = tuple(e.params["broadcast_dimensions"][d] for d in inner.params["broadcast_dimensions"])
    return r.emit(st.broadcast_in_dim_p, inner.inputs, shape=e.params["shape"], broadcast_dimensions=dims)


@rule(st.broadcast_in_dim_p, when=(st.reshape_p,))
def broadcast_of_inserted_dimensions(r: Rewriter, e: Eqn) -> Rewrite:
    """A reshape that only inserts dimensions of size 1 is part of the broadcast."""
    inner = r.producer(e.inputs[0], st.reshape_p)
    if inner is None:
        return None
    old, new = inner.inputs[0].aval.shape, inner.params["new_sizes"]
    kept: list[int] = []
    for i, n in enumerate(new):
        if len(kept) < len(old) and n == old[len(kept)]:
            kept.append(i)
        elif n != 1:
            return None
    if len(kept) != len(old):
        return None
    dims = tuple(e.params["broadcast_dimensions"][i] for i in kept)
    return r.emit(st.broadcast_in_dim_p, inner.inputs, shape=e.params["shape"], broadcast_dimensions=dims)


@rule(st.broadcast_in_dim_p, when=(st.reshape_p,))
def broadcast_of_merged_repeats(r: Rewriter, e: Eqn) -> Rewrite:
    """A reshape that merges dimensions of a repeated array comes after both repetitions, which become one."""
    reshape = r.producer(e.inputs[0], st.reshape_p)
    inner = None if reshape is None else r.producer(reshape.inputs[0], st.broadcast_in_dim_p)
    if reshape is None or inner is None or not inner.inputs[0].aval.shape:
        return None
    old, new, out = inner.params["shape"], reshape.params["new_sizes"], e.params["shape"]
    groups, given = _merged(old, new), list[int](e.params["broadcast_dimensions"])
    if groups is None or any(out[d] != n for d, n in zip(given, new)):
        return None
    shape: list[int] = []
    place: dict[int, int] = {}  # of each dimension of the first repeated array
    for d, n in enumerate(out):
        group = [n]
        if d in given:
            dims = groups[given.index(d)]
            place.update({k: len(shape) + i for i, k in enumerate(dims)})
            group = [old[k] for k in dims]
        shape += group
    places = tuple(place[d] for d in inner.params["broadcast_dimensions"])
    both = r.emit(st.broadcast_in_dim_p, inner.inputs, shape=tuple(shape), broadcast_dimensions=places)
    return r.emit(st.reshape_p, [both], new_sizes=out)


def _merged(old: tuple[int, ...], new: tuple[int, ...]) -> list[range] | None:
    """The neighbouring dimensions of a shape that each dimension of another is made of; None where one is divided."""
    groups: list[range] = []
    at = 0
    for n in new:
        first, size = at, 1
        while at < len(old) and (size < n or at == first):
            size *= old[at]
            at += 1
        if size != n or at == first:
            return None
        groups.append(range(first, at))
    return groups if at == len(old) else None


@rule(st.reshape_p)
def reshape_to_its_own_shape(r: Rewriter, e: Eqn) -> Rewrite:
    (x,) = e.inputs
    return x if x.aval.shape == e.params["new_sizes"] else None


@rule(st.reshape_p, when=(st.reshape_p,))
def reshape_of_reshape(r: Rewriter, e: Eqn) -> Rewrite:
    inner = r.producer(e.inputs[0], st.reshape_p)
    return None if inner is None else r.emit(st.reshape_p, inner.inputs, **e.params)


@rule(st.transpose_p)
def transpose_in_order(r: Rewriter, e: Eqn) -> Rewrite:
    permutation = e.params["permutation"]
    return e.inputs[0] if permutation == tuple(range(len(permutation))) else None


@rule(st.transpose_p, when=(st.transpose_p,))
def transpose_of_transpose(r: Rewriter, e: Eqn) -> Rewrite:
    inner = r.producer(e.inputs[0], st.transpose_p)
    if inner is None:
        return None
    permutation = tuple(inner.params["permutation"][i] for i in e.params["permutation"])
    return r.emit(st.transpose_p, inner.inputs, permutation=permutation)


@rule(st.transpose_p, when=(st.broadcast_in_dim_p,))
def transpose_of_broadcast(r: Rewriter, e: Eqn) -> Rewrite:
    inner = r.producer(e.inputs[0], st.broadcast_in_dim_p)
    if inner is None:
        return None
    permutation = e.params["permutation"]
    dims = tuple(permutation.index(d) for d in inner.params["broadcast_dimensions"])
    if list(dims) != sorted(dims):
        return None
    shape = e.outputs[0].aval.shape
    return r.emit(st.broadcast_in_dim_p, inner.inputs, shape=shape, broadcast_dimensions=dims)


@rule(st.tile_p)
def tile_of_single_elements(r: Rewriter, e: Eqn) -> Rewrite:
    """What is repeated along dimensions of size 1 only is broadcast."""
    (x,) = e.inputs
    if any(n != 1 and k != 1 for n, k in zip(x.aval.shape, e.params["reps"], strict=True)):
        return None
    dims = tuple(range(x.aval.ndim))
    return r.emit(st.broadcast_in_dim_p, [x], shape=e.outputs[0].aval.shape, broadcast_dimensions=dims)


@rule(rd.reduce_sum_p, when=(st.pad_p,))
def sum_of_pad(r: Rewriter, e: Eqn) -> Rewrite:
    """Zeros around an array add nothing to its sums; along the other dimensions the sums are padded."""
    inner = r.producer(e.inputs[0], st.pad_p)
    if inner is None:
        return None
    x, value = inner.inputs
    number, axes = r.value(value), e.params["axes"]
    config = inner.params["padding_config"]
    if number is None or number != 0 or any(low < 0 or high < 0 for low, high, _ in (config[d] for d in axes)):
        return None
    total = r.emit(e.primitive, [x], **e.params)
    kept = tuple(c for d, c in enumerate(config) if d not in axes)
    if all(c == (0, 0, 0) for c in kept):
        return total
    return r.emit(st.pad_p, [total, r.literal(0, value.aval)], padding_config=kept)


def moving_of_scalar_broadcast(r: Rewriter, e: Eqn) -> Rewrite:
    """A rearranged broadcast scalar is the scalar broadcast to the result's shape."""
    if not e.inputs[0].aval.shape:
        return None
    source = r.broadcast_source(e.inputs[0])
    return None if source is None else r.broadcast(source, e.outputs[0].aval)


@rule(ix.gather_p, when=(SPREAD,))
def gather_of_scalar_broadcast(r: Rewriter, e: Eqn) -> Rewrite:
    """Whatever is taken of equal elements, if none is outside."""
    if e.params["mode"] is ix.GatherScatterMode.FILL_OR_DROP:
        return None
    return moving_of_scalar_broadcast(r, e)


# -- operations that do nothing ---------------------------------------------------------------------------------------


def same_shape(r: Rewriter, e: Eqn) -> Rewrite:
    """Whole slices, pads by nothing, and the like."""
    x = e.inputs[0]
    return x if x.aval.shape == e.outputs[0].aval.shape else None


def nothing_along_no_dimension(r: Rewriter, e: Eqn) -> Rewrite:
    """A reduction, a reversal or a removal of no dimensions."""
    axes = e.params.get("axes", e.params.get("dimensions"))
    return e.inputs[0] if axes == () else None


def slice_of_slice(r: Rewriter, e: Eqn) -> Rewrite:
    """A slice of a slice is one slice of the array."""
    inner = r.producer(e.inputs[0], e.primitive)
    if inner is None:
        return None
    n = e.inputs[0].aval.ndim
    outer_strides: Any = e.params["strides"] or (1,) * n
    inner_strides: Any = inner.params["strides"] or (1,) * n
    shape = e.outputs[0].aval.shape
    starts = zip(inner.params["start_indices"], e.params["start_indices"], inner_strides, shape)
    start = tuple(a + b * s if k else a for a, b, s, k in starts)
    strides = tuple(a * b for a, b in zip(inner_strides, outer_strides))
    limit = tuple(a + (k - 1) * s + 1 if k else a for a, k, s in zip(start, shape, strides))
    plain = None if all(s == 1 for s in strides) else strides
    return r.emit(e.primitive, inner.inputs, start_indices=start, limit_indices=limit, strides=plain)


def reverse_of_reverse(r: Rewriter, e: Eqn) -> Rewrite:
    """Reversing the same dimensions twice changes nothing."""
    inner = r.producer(e.inputs[0], e.primitive)
    if inner is None or set(inner.params["dimensions"]) != set(e.params["dimensions"]):
        return None
    return inner.inputs[0]


def concatenate_of_one(r: Rewriter, e: Eqn) -> Rewrite:
    """Operands without elements are left out; one that remains is the result."""
    axis = e.params["dimension"]
    kept = [x for x in e.inputs if x.aval.shape[axis]]
    if len(kept) == 1:
        return kept[0]
    return r.emit(e.primitive, kept, **e.params) if 1 < len(kept) < len(e.inputs) else None


def pad_of_nothing(r: Rewriter, e: Eqn) -> Rewrite:
    """An array without elements, padded, is the padding value everywhere."""
    x, value = e.inputs
    shape = e.outputs[0].aval.shape
    return None if x.aval.size else r.emit(st.broadcast_in_dim_p, [value], shape=shape, broadcast_dimensions=())


rule_of("reshape", "transpose", "rev", "slice", "squeeze", "expand_dims", "dynamic_slice", when=(SPREAD,))(
    moving_of_scalar_broadcast
)
rule_of("slice", "dynamic_slice", "squeeze", "expand_dims")(same_shape)
rule_of("rev", "squeeze", "expand_dims", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and",
        "reduce_or", "reduce_xor")(nothing_along_no_dimension)  # fmt: skip


def reduction_of_repeated(r: Rewriter, e: Eqn) -> Rewrite:
    """What is repeated is reduced once; along dimensions that an extreme is only repeated along, it is itself."""
    inner = r.producer(e.inputs[0], st.broadcast_in_dim_p)
    if inner is None or not inner.inputs[0].aval.shape:
        return None
    x, dims, shape = inner.inputs[0].aval.shape, inner.params["broadcast_dimensions"], inner.params["shape"]
    own = {d for d, n in zip(dims, x) if n == shape[d]}
    axes: tuple[int, ...] = e.params["axes"]
    repeated = [d for d in axes if d not in own]
    if repeated and (e.primitive.name not in _IDEMPOTENT or any(shape[d] == 0 for d in repeated)):
        return None
    kept = [d for d in range(len(shape)) if d not in axes]
    if own.issuperset(range(len(shape))):
        return None
    reduced = r.emit(e.primitive, inner.inputs, axes=tuple(k for k, d in enumerate(dims) if d in axes))
    places = tuple(kept.index(d) for d in dims if d not in axes)
    return r.emit(st.broadcast_in_dim_p, [reduced], shape=tuple(shape[d] for d in kept), broadcast_dimensions=places)


def sort_of_single_elements(r: Rewriter, e: Eqn) -> Rewrite:
    """Rows of one element, or of none, are in order. Only IREE would see that an index of such an order does not read the rows."""
    return list(e.inputs) if e.inputs[0].aval.shape[e.params["dimension"]] <= 1 else None


_IDEMPOTENT = ("reduce_max", "reduce_min", "reduce_and", "reduce_or")
rule_of("reduce_sum", "reduce_prod", "reduce_xor", *_IDEMPOTENT, when=(st.broadcast_in_dim_p,))(reduction_of_repeated)
rule_of("slice", when=(st.slice_p,))(slice_of_slice)
rule_of("rev", when=(st.rev_p,))(reverse_of_reverse)
rule_of("concatenate")(concatenate_of_one)
rule_of("pad")(pad_of_nothing)
rule_of("sort")(sort_of_single_elements)


# -- scalars beside arrays --------------------------------------------------------------------------------------------


@rule(*_elementwise(), when=(SPREAD,))
def scalar_operand(r: Rewriter, e: Eqn) -> Rewrite:
    """An elementwise operation takes a scalar as it is: no need to broadcast it."""
    shape = e.outputs[0].aval.shape
    if len(e.inputs) < 2 or not shape:
        return None
    scalars = [r.broadcast_source(a) if a.aval.shape else None for a in e.inputs]
    if not any(s is not None for s in scalars):
        return None
    if all(s is not None or not a.aval.shape for s, a in zip(scalars, e.inputs)):  # computed once, broadcast then
        out = r.emit(e.primitive, [a if s is None else s for s, a in zip(scalars, e.inputs)], **e.params)
        return r.broadcast(out, e.outputs[0].aval)
    return r.emit(e.primitive, [a if s is None else s for s, a in zip(scalars, e.inputs)], **e.params)


def of_broadcast_scalar(r: Rewriter, e: Eqn) -> Rewrite:
    """An elementwise function of a broadcast scalar is computed once."""
    if len(e.inputs) != 1 or not e.outputs[0].aval.shape:
        return None
    source = r.broadcast_source(e.inputs[0])
    if source is None:
        return None
    return r.broadcast(r.emit(e.primitive, [source], **e.params), e.outputs[0].aval)


#: From so many elements on it is worth a dispatch of its own to compute what is repeated once.
_REPEATED = 4096


def of_broadcasts_alike(r: Rewriter, e: Eqn) -> Rewrite:
    """What is computed of arrays that are repeated alike is computed once, and repeated."""
    aval = e.outputs[0].aval
    if aval.size < _REPEATED or aval.division:
        return None
    arrays = [r.producer(a, st.broadcast_in_dim_p) for a in e.inputs if a.aval.shape]
    first = arrays[0] if arrays else None
    if first is None or not first.inputs[0].aval.shape or first.inputs[0].aval.size * 2 > aval.size:
        return None
    how = (first.inputs[0].aval.shape, first.params["broadcast_dimensions"])
    if any(a is None or (a.inputs[0].aval.shape, a.params["broadcast_dimensions"]) != how for a in arrays):
        return None
    sources = iter([a.inputs[0] for a in arrays if a is not None])
    once = r.emit(e.primitive, [next(sources) if a.aval.shape else a for a in e.inputs], **e.params)
    return r.emit(st.broadcast_in_dim_p, [once], shape=aval.shape, broadcast_dimensions=how[1])


# Elementwise primitives with parameters, which `_elementwise` leaves out, that compute one element of one operand.
_WITH_PARAMETERS = (ew.convert_element_type_p, ew.integer_pow_p, ew.square_p, ew.round_p, ew.reduce_precision_p)
rule(*dict.fromkeys((*_elementwise(), *_WITH_PARAMETERS)), when=(SPREAD,))(of_broadcast_scalar)
rule(*dict.fromkeys((*_elementwise(), *_WITH_PARAMETERS)), when=(st.broadcast_in_dim_p,))(of_broadcasts_alike)
