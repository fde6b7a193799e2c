"""NumPy's indexing of arrays: an index expression (`index_expressions`) becomes slices, gathers and scatters.

Static integers and slices become `slice`, `rev` and `squeeze`; traced scalars beside them `dynamic_slice`; anything with
index arrays a `gather` of the operand that the static part has left. Updates become `dynamic_update_slice` where the
place is static and contiguous, else a scatter. An index outside the array is clamped when reading and dropped when
writing, unless a mode says otherwise.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import EllipsisType
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.config import config
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import structural as st
from quire.ir.primitives.indexing import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from quire.ir.source import current_source, where
from quire.ir.tracing import bind
from quire.runtime.array import Array, from_numpy, host_value

from ..arrays.operands import Value, broadcast_to, cast, eager_here, result_type
from .creation import filled
from .from_values import array as make_array
from .index_expressions import Entry, Layout, New, Parsed, Positions, Slice, Static, layout, parse

# -- reading --------------------------------------------------------------------------------------------------------------

_BASIC = (int, slice, EllipsisType, type(None))


def _host_index(index: Any) -> tuple[Any, bool] | None:
    """An index that NumPy reads as quire does, as a tuple, and whether it has index arrays; None for others.

    Index arrays are those in host memory; NumPy refuses positions outside, which have a meaning here.
    """
    items = index if type(index) is tuple else (index,)
    advanced = False
    for i in items:
        kind = type(i)
        if kind not in _BASIC:
            if kind is not Array or i._device is not None:  # pyright: ignore[reportPrivateUsage]
                return None
            advanced = True
    if not advanced:
        return items, False
    items = tuple([host_value(i) if type(i) is Array else i for i in items])
    for i in items:
        if isinstance(i, np.ndarray) and (i.dtype.kind not in "iub" or i.ndim == 0 or i.dtype == np.uint64):
            return None
    return items, True


def _host_view(x: Array, index: tuple[Any, ...]) -> np.ndarray[Any, Any] | None:
    """The elements of an array in host memory at an index of `_host_index`, if it lies inside."""
    if x._device is not None:  # pyright: ignore[reportPrivateUsage]
        return None
    try:
        return host_value(x)[index]
    except (IndexError, TypeError, ValueError):  # outside, or an error that `parse` words better
        return None


def getitem(x: Value, index: Any) -> Value:
    """``x[index]``."""
    if type(x) is Array and eager_here():
        found = _host_index(index)
        view = None if found is None else _host_view(x, found[0])
        if view is not None:
            if not isinstance(view, np.ndarray):  # NumPy gives scalars for full indices
                view = np.asarray(view)
            elif view.base is not None and view.nbytes < 1 << 16:
                view = view.copy()  # a small part does not keep a large array alive
            return from_numpy(view, ShapedArray(view.shape, x.aval.dtype, x.aval.weak_type))
    return get(x, index)


def get(
    x: Value,
    index: Any,
    *,
    mode: Any = None,
    fill_value: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    wrap_negative_indices: bool = True,
) -> Value:
    """``x[index]`` with a rule for indices outside: see `at`. Raises ValueError for a fill_value that is no scalar."""
    if fill_value is not None and np.shape(fill_value):
        raise ValueError(
            f"indexing: fill_value must be a scalar, got shape {np.shape(fill_value)}: choose by quire.numpy.where"
        )
    parsed = parse(x.aval.shape, index, wrap_negative_indices)
    plan = layout(parsed)
    m = GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.of(mode)
    if m is GatherScatterMode.PROMISE_IN_BOUNDS and config.options.check_static_indices:
        _check_inside(parsed, wrap_negative_indices)
    fill = m is GatherScatterMode.FILL_OR_DROP
    aval = x.aval
    if 0 in plan.shape:
        return filled(plan.shape, 0, aval.dtype, aval.weak_type)
    if fill and _any_outside(parsed):
        value = ix.fill_scalar(fill_value, aval.dtype)
        return filled(plan.shape, value, aval.dtype, aval.weak_type)
    if parsed.added:
        x = st.expand_dims(x, parsed.added)
    gathered = fill
    if m is GatherScatterMode.PROMISE_IN_BOUNDS and _any_outside(parsed) and any(map(_is_gathered, parsed.entries)):
        # What a gather finds outside has no derivative, as in JAX: integers are among its indices then.
        parsed = replace(parsed, entries=[_as_positions(e, parsed.shape) for e in parsed.entries])
        gathered = True
    arrays = [e for e in parsed.entries if isinstance(e, Positions)]
    if not gathered and arrays and all(np.ndim(e.values) == 0 for e in arrays):
        x = _dynamic_part(x, parsed, wrap_negative_indices)
        arrays = []
    x, kept = _static_part(x, parsed, [e.dim for e in arrays])
    if arrays:
        x = _gather(
            x,
            arrays,
            kept,
            plan,
            parsed.shape,
            m,
            fill_value,
            indices_are_sorted,
            unique_indices,
            wrap_negative_indices,
        )
    return st.expand_dims(x, plan.new) if plan.new else x


def _check_inside(parsed: Parsed, wrap: bool) -> None:
    """`config.check_static_indices`: an integer that is known while a function is traced must lie inside."""
    for e in parsed.entries:
        if isinstance(e, Static) and not 0 <= e.position < parsed.shape[e.dim]:
            n = parsed.shape[e.dim]
            given = e.position if e.position >= 0 or not wrap else e.position - n
            dim = e.dim - sum(d < e.dim for d in parsed.added)
            raise IndexError(
                f"index {given} out of bounds for axis {dim} with size {n}{where(current_source(2))}: "
                "quire.config.check_static_indices is on"
            )


def _strided(e: Slice) -> bool:
    """Whether there are gaps between the elements of a slice."""
    return abs(e.step) > 1 and e.count > 1


def _is_gathered(e: Entry) -> bool:
    """Whether an entry makes an indexing a gather, in JAX."""
    return isinstance(e, Positions) and np.ndim(e.values) > 0 or isinstance(e, Slice) and _strided(e)


def _as_positions(e: Entry, shape: tuple[int, ...]) -> Entry:
    """An integer that lies outside as an index array without dimensions."""
    if isinstance(e, Static) and not 0 <= e.position < shape[e.dim]:
        return Positions(e.dim, np.asarray(e.position))
    return e


def _any_outside(parsed: Parsed) -> bool:
    return any(isinstance(e, Static) and not 0 <= e.position < parsed.shape[e.dim] for e in parsed.entries)


def _static_part(x: Value, parsed: Parsed, gathered: Sequence[int]) -> tuple[Value, list[int]]:
    """Apply the slices and static integers. Returns also the operand's dimensions that are left."""
    shape = x.aval.shape
    starts, limits, steps = [0] * len(shape), list(shape), [1] * len(shape)
    reverse: list[int] = []
    squeeze: list[int] = []
    for e in parsed.entries:
        if isinstance(e, Slice):
            last = e.start + (e.count - 1) * e.step
            low, high = (e.start, last) if e.step > 0 else (last, e.start)
            if e.count and e.step < 0 and e.count > 1:
                reverse.append(e.dim)
            starts[e.dim], limits[e.dim] = (low, high + 1) if e.count else (0, 0)
            steps[e.dim] = abs(e.step) if e.count > 1 else 1
        elif isinstance(e, Static):
            p = min(max(e.position, 0), parsed.shape[e.dim] - 1) if shape[e.dim] > 1 else 0
            starts[e.dim], limits[e.dim] = p, p + 1
            squeeze.append(e.dim)
        elif isinstance(e, Positions) and e.dim not in gathered:
            squeeze.append(e.dim)
    x = st.slice(x, starts, limits, steps)
    if reverse:
        x = st.rev(x, reverse)
    if squeeze:
        x = st.squeeze(x, squeeze)
    return x, [d for d in range(len(shape)) if d not in squeeze]


def _dynamic_part(x: Value, parsed: Parsed, wrap: bool) -> Value:
    """Read the dimensions that traced scalars index, leaving them with size 1."""
    shape = x.aval.shape
    starts: list[Value] = [np.int32(0)] * len(shape)
    sizes = list(shape)
    for e in parsed.entries:
        if isinstance(e, Positions):
            starts[e.dim] = _normalized(e.values, shape[e.dim], wrap)
            sizes[e.dim] = 1
    return ix.dynamic_slice(x, starts, sizes)


def _normalized(values: Any, n: int, wrap: bool) -> Value:
    """Positions as int32 counted from the front: n is added to negative ones."""
    if isinstance(values, np.ndarray):
        if values.dtype.kind == "i" and values.size and values.min() >= 0 and values.max() < 2**31:
            return values.astype(np.int32, copy=False)
        signed = (
            np.minimum(values, np.uint64(2**31)).astype(np.int64)
            if values.dtype == np.uint64
            else values.astype(np.int64)
        )
        if wrap:
            signed = np.where(signed < 0, signed + n, signed)
        return np.clip(signed, -(2**31), 2**31 - 1).astype(np.int32)
    dtype = values.aval.dtype
    if dtypes.is_unsigned(dtype):
        if dtype.itemsize >= 4:
            values = ew.min_p.bind(values, dtype.type(2**31 - 1))
        return cast(values, dtypes.int32)
    if dtype.itemsize <= 4:
        values = cast(values, dtypes.int32)
    if wrap:
        d = values.aval.dtype
        negative = bind(ew.lt_p, (values, d.type(0)), {})
        values = bind(ew.select_n_p, (negative, values, bind(ew.add_p, (values, d.type(n)), {})), {})
    if dtype.itemsize > 4:
        values = cast(ew.clamp_p.bind(dtype.type(-(2**31)), values, dtype.type(2**31 - 1)), dtypes.int32)
    return values


def _index_vectors(columns: Sequence[Value], batch: tuple[int, ...]) -> Value:
    """Positions stacked as the last dimension of one array of indices."""
    if all(isinstance(c, np.ndarray | np.generic) for c in columns):
        host = (
            np.stack([np.broadcast_to(c, batch) for c in columns], axis=-1)
            if columns
            else np.zeros((*batch, 0), np.int32)
        )
        return from_numpy(host, ShapedArray(host.shape, dtypes.int32))
    dims = tuple(range(len(batch)))
    vectors = [st.broadcast_in_dim(broadcast_to(c, batch), (*batch, 1), dims) for c in map(_lifted, columns)]
    return st.concatenate(vectors, len(batch))


def _lifted(c: Any) -> Value:
    if isinstance(c, np.ndarray | np.generic):
        host = np.asarray(c)
        return from_numpy(host, ShapedArray(host.shape, host.dtype))
    return c


def _gather(
    x: Value,
    arrays: Sequence[Positions],
    kept: Sequence[int],
    plan: Layout,
    shape: tuple[int, ...],
    mode: GatherScatterMode,
    fill_value: Any,
    indices_are_sorted: bool,
    unique_indices: bool,
    wrap: bool,
) -> Value:
    """Gather from what the static part left: its dimensions `kept` of the operand."""
    columns = [_normalized(e.values, shape[e.dim], wrap) for e in arrays]
    collapsed = tuple(kept.index(e.dim) for e in arrays)
    offset: list[int] = []
    position = 0
    for part in plan.order:
        if isinstance(part, str):
            position += len(plan.batch)
        else:
            offset.append(position)
            position += 1
    numbers = GatherDimensionNumbers(tuple(offset), tuple(sorted(collapsed)), collapsed)
    sizes = [1 if d in collapsed else n for d, n in enumerate(x.aval.shape)]
    return ix.gather(
        x, _index_vectors(columns, plan.batch), numbers, sizes, indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices, mode=mode, fill_value=fill_value,
    )  # fmt: skip


# -- writing --------------------------------------------------------------------------------------------------------------

Combine = Callable[[Value, Value], Value]

# How an update combines with what is there: the scatter, and the same on whole arrays (None: the update replaces it).
UPDATES: dict[str, tuple[Callable[..., Value], Combine | None]] = {
    "set": (ix.scatter, None),
    "add": (ix.scatter_add, lambda old, new: bind(ew.add_p, (old, new), {})),
    "subtract": (ix.scatter_sub, lambda old, new: bind(ew.sub_p, (old, new), {})),
    "multiply": (ix.scatter_mul, lambda old, new: bind(ew.mul_p, (old, new), {})),
    "min": (ix.scatter_min, lambda old, new: bind(ew.min_p, (old, new), {})),
    "max": (ix.scatter_max, lambda old, new: bind(ew.max_p, (old, new), {})),
}
_HOST_UPDATES: dict[str, np.ufunc] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "min": np.minimum, "max": np.maximum,
}  # fmt: skip


def _check_cast(name: str, x: Value, y: Value) -> None:
    """Warn, as JAX does, when the update's dtype does not fit into the array's."""
    target = x.aval.dtype
    if y.aval.dtype != target and result_type(x, y)[0] != target:
        warnings.warn(
            f"scatter inputs have incompatible types: cannot safely cast value from dtype={y.aval.dtype} to dtype={target}; "
            f"convert it first: x.at[...].{name}(value.astype({str(target)!r}))",
            FutureWarning,
            stacklevel=4,
        )


def update(
    x: Value,
    index: Any,
    y: Any,
    how: str,
    *,
    mode: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    wrap_negative_indices: bool = True,
    apply: Callable[[Value], Value] | None = None,
) -> Value:
    """x with `y` combined into the elements that `index` selects; `how` is a key of `UPDATES`, or "apply"."""
    aval = x.aval
    if type(x) is Array and mode is None and apply is None and wrap_negative_indices and eager_here():
        done = _host_update(x, index, y, how)
        if done is not None:
            return done
    parsed = parse(aval.shape, index, wrap_negative_indices)
    plan = layout(parsed)
    m = GatherScatterMode.of(mode)
    y = make_array(y, copy=False)
    if apply is None:
        _check_cast(how, x, y)
        dtype, weak = result_type(x, y)
        work, y = cast(x, dtype, weak), cast(y, dtype, weak)
    else:
        work = x
    y = _update_values(y, plan)
    if 0 in plan.shape or (m is GatherScatterMode.FILL_OR_DROP and _any_outside(parsed)):
        return x
    if parsed.added:
        work = st.expand_dims(work, parsed.added)
    at_its_place = m is not GatherScatterMode.CLIP or not _any_outside(parsed)
    if apply is None and at_its_place and _contiguous(parsed) and not _refused(aval, how):
        out = _update_slice(work, parsed, plan, y, UPDATES[how][1])
    else:
        out = _scatter(work, parsed, plan, y, how, m, indices_are_sorted, unique_indices, wrap_negative_indices, apply)
    if parsed.added:
        out = st.squeeze(out, parsed.added)
    return cast(out, aval.dtype, aval.weak_type)


def _refused(aval: ShapedArray, how: str) -> bool:
    """Whether the scatter primitive takes no operand of this type: arithmetic of bools."""
    return dtypes.is_bool(aval.dtype) and how in ("add", "subtract", "multiply")


def _host_update(x: Array, index: Any, y: Any, how: str) -> Array | None:
    """The update of an array in host memory at an index that lies inside, with a value that fits its dtype."""
    aval = x.aval
    kind = type(y)
    if _refused(aval, how):
        return None
    if kind is Array:
        if y.aval.dtype != aval.dtype or y._device is not None:  # pyright: ignore[reportPrivateUsage]
            return None
        value: Any = host_value(y)
    elif kind is float or kind is int or kind is bool:
        if aval.dtype.kind not in {float: "fV", int: "iufV", bool: "b"}[kind]:
            return None
        value = y
    else:
        return None
    found = _host_index(index)
    if found is None or x._device is not None or how not in _HOST_UPDATES and how != "set":  # pyright: ignore[reportPrivateUsage]
        return None
    place, advanced = found
    if advanced and how != "set" and aval.dtype in (dtypes.float16, dtypes.bfloat16):
        return None  # equal positions add up in float32 and are rounded once
    out = host_value(x).copy()
    try:
        with np.errstate(all="ignore"):
            if how == "set":
                out[place] = value
            else:
                value = value if kind is Array else aval.dtype.type(value)
                if advanced:
                    _HOST_UPDATES[how].at(out, place, value)
                else:
                    out[place] = _HOST_UPDATES[how](out[place], value)
    except (IndexError, TypeError, ValueError, OverflowError):  # outside, shapes that do not broadcast, a large number
        return None
    out.setflags(write=False)
    return from_numpy(out, aval)


def _update_values(y: Value, plan: Layout) -> Value:
    """The update broadcast to the indexed shape, without its new dimensions."""
    shape = y.aval.shape
    n = len(plan.shape)
    if len(shape) > n and all(k == 1 for k in shape[: len(shape) - n]):
        y = st.reshape(y, shape[len(shape) - n :])
        shape = y.aval.shape
    if len(shape) > n or any(a not in (1, b) for a, b in zip(shape[::-1], plan.shape[::-1])):
        raise ValueError(
            f"Incompatible shapes for broadcasting: the value {y.aval.short()} and the indexed elements of shape "
            f"{plan.shape}{where(current_source(2))}"
        )
    if plan.new and len(shape) == n:
        # Dimensions that the index added have size 1 in the update too.
        y = st.squeeze(y, plan.new)
    elif plan.new:
        y = st.squeeze(broadcast_to(y, plan.shape), plan.new)
    return broadcast_to(y, tuple(k for i, k in enumerate(plan.shape) if i not in plan.new))


def _contiguous(parsed: Parsed) -> bool:
    """Whether the index selects a static block: static integers and slices without gaps only."""
    return all(not isinstance(e, Positions) and not (isinstance(e, Slice) and _strided(e)) for e in parsed.entries)


def _update_slice(x: Value, parsed: Parsed, plan: Layout, y: Value, combine: Combine | None) -> Value:
    shape = x.aval.shape
    starts, sizes = [0] * len(shape), list(shape)
    reverse: list[int] = []
    for e in parsed.entries:
        if isinstance(e, Static):
            starts[e.dim], sizes[e.dim] = min(max(e.position, 0), shape[e.dim] - 1), 1
        elif isinstance(e, Slice):
            if e.step < 0 and e.count > 1:
                reverse.append(e.dim)
            starts[e.dim] = e.start if e.step > 0 else e.start + (e.count - 1) * e.step
            sizes[e.dim] = e.count
    y = st.reshape(y, sizes)
    if reverse:
        y = st.rev(y, reverse)
    if combine is not None:
        y = combine(st.slice(x, starts, [a + n for a, n in zip(starts, sizes)]), y)
    if sizes == list(shape):
        return cast(y, x.aval.dtype, x.aval.weak_type)
    return ix.dynamic_update_slice(x, y, [np.int32(a) for a in starts])


def _scatter(
    x: Value,
    parsed: Parsed,
    plan: Layout,
    y: Value,
    how: str,
    mode: GatherScatterMode,
    indices_are_sorted: bool,
    unique_indices: bool,
    wrap: bool,
    apply: Callable[[Value], Value] | None,
) -> Value:
    """A scatter whose index vectors run over the index arrays and over slices with gaps, in the result's order."""
    shape = x.aval.shape
    strided = [p for p in plan.order if isinstance(p, Slice) and _strided(p)]
    batch: list[int] = []
    array_axes: list[int] = []
    slice_axis: dict[int, int] = {}
    window: list[int] = []
    reverse: list[int] = []
    position = 0
    for part in plan.order:
        if isinstance(part, str):
            array_axes = list(range(len(batch), len(batch) + len(plan.batch)))
            batch.extend(plan.batch)
            position += len(plan.batch)
            continue
        if part in strided:
            slice_axis[part.dim] = len(batch)
            batch.append(part.count)
        else:
            window.append(position)
            if part.step < 0 and part.count > 1:
                reverse.append(position)
        position += 1
    columns: list[Value] = []
    operand_dims: list[int] = []
    inserted: list[int] = []
    for e in parsed.entries:
        if isinstance(e, New):
            continue
        if isinstance(e, Static):
            columns.append(np.full((1,) * len(batch), min(max(e.position, -1), shape[e.dim]), np.int32))
            inserted.append(e.dim)
        elif isinstance(e, Positions):
            values = _normalized(e.values, shape[e.dim], wrap)
            columns.append(_placed(values, array_axes, len(batch)))
            inserted.append(e.dim)
        elif e in strided:
            columns.append(_line(e, slice_axis[e.dim], batch))
            inserted.append(e.dim)
        else:
            low = e.start if e.step > 0 else e.start + (e.count - 1) * e.step
            if low == 0:
                continue
            columns.append(np.full((1,) * len(batch), low, np.int32))
        operand_dims.append(e.dim)
    if reverse:
        y = st.rev(y, reverse)
    numbers = ScatterDimensionNumbers(tuple(window), tuple(sorted(inserted)), tuple(operand_dims))
    arrays = [e for e in parsed.entries if isinstance(e, Positions)]
    single = not any(np.ndim(e.values) for e in arrays)  # each element is written at most once
    options: dict[str, Any] = {
        "indices_are_sorted": indices_are_sorted or (single and not any(s.step < 0 for s in strided)),
        "unique_indices": unique_indices or single,
        "mode": mode,
    }
    vectors = _index_vectors(columns, tuple(batch))
    if apply is not None:
        return ix.scatter_apply(x, vectors, apply, numbers, update_shape=y.aval.shape, **options)
    return UPDATES[how][0](x, vectors, y, numbers, **options)


#: So many index vectors are a constant of the program; more are computed where they are read, which takes no memory.
_FEW_POSITIONS = 1024


def _line(part: Slice, axis: int, batch: Sequence[int]) -> Value:
    """The positions of a slice with gaps, along an axis of the index vectors."""
    shape = [part.count if i == axis else 1 for i in range(len(batch))]
    if math.prod(batch) <= _FEW_POSITIONS or eager_here():
        line = np.arange(part.start, part.start + part.count * part.step, part.step, dtype=np.int32)
        return line.reshape(shape)
    counted = st.broadcasted_iota(np.int32, shape, axis)
    return ew.add(ew.mul(counted, np.int32(part.step)), np.int32(part.start))


def _placed(values: Value, axes: Sequence[int], rank: int) -> Value:
    """Index values with size-1 dimensions for the batch dimensions that are not theirs."""
    n = np.ndim(values) if isinstance(values, np.ndarray) else values.aval.ndim
    shape = values.shape if isinstance(values, np.ndarray) else values.aval.shape
    full = [1] * rank
    for a, k in zip(axes[len(axes) - n :], shape):
        full[a] = k
    return values.reshape(full) if isinstance(values, np.ndarray) else st.reshape(values, full)
