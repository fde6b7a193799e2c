"""Derivative rules of structural primitives. All are linear; their transposes move elements back, or add them up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st

from .rules import Linear, Value, Zero, define_linear, instantiate, is_zero, jvp, transpose


def _broadcast_back(
    ct: Value, aval: ShapedArray, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]
) -> Value:
    repeated = [
        i for i in range(len(shape))
        if i not in broadcast_dimensions or (aval.shape[broadcast_dimensions.index(i)] == 1 and shape[i] != 1)
    ]  # fmt: skip
    return st.reshape(rd.reduce_sum(ct, repeated), aval.shape)


def _reshape_back(ct: Value, aval: ShapedArray, **_: Any) -> Value:
    return st.reshape(ct, aval.shape)


def _transpose_back(ct: Value, aval: ShapedArray, *, permutation: tuple[int, ...]) -> Value:
    return st.transpose(ct, np.argsort(permutation).tolist())


def _rev_back(ct: Value, aval: ShapedArray, *, dimensions: tuple[int, ...]) -> Value:
    return st.rev(ct, dimensions)


def _slice_back(
    ct: Value, aval: ShapedArray, *, start_indices: tuple[int, ...], limit_indices: tuple[int, ...],
    strides: tuple[int, ...] | None,
) -> Value:  # fmt: skip
    config: list[tuple[int, int, int]] = []
    for n, m, start, step in zip(aval.shape, aval_of(ct).shape, start_indices, strides or (1,) * aval.ndim):
        reach = (m - 1) * step + 1 if m else 0
        config.append((start, n - start - reach, step - 1))
    return st.pad(ct, _zero(ct), config)


def _tile_back(ct: Value, aval: ShapedArray, *, reps: tuple[int, ...]) -> Value:
    apart = [n for pair in zip(reps, aval.shape) for n in pair]
    return rd.reduce_sum(st.reshape(ct, apart), range(0, len(apart), 2))


def _zero(x: Value) -> Value:
    return np.zeros((), aval_of(x).dtype)[()]


define_linear(st.broadcast_in_dim_p, _broadcast_back)
define_linear(st.reshape_p, _reshape_back)
define_linear(st.squeeze_p, _reshape_back)
define_linear(st.transpose_p, _transpose_back)
define_linear(st.rev_p, _rev_back)
define_linear(st.slice_p, _slice_back)
define_linear(st.tile_p, _tile_back)

jvp.absent("it has no operands", st.iota_p)
transpose.absent("it has no operands", st.iota_p)


# -- several operands or results --------------------------------------------------------------------------


@jvp(st.concatenate_p)
def concatenate(primals: Sequence[Value], tangents: Sequence[Any], *, dimension: int) -> tuple[Value, Value]:
    return st.concatenate_p.bind(*primals, dimension=dimension), st.concatenate_p.bind(
        *map(instantiate, tangents), dimension=dimension
    )


@transpose(st.concatenate_p)
def concatenate_back(ct: Value, *operands: Any, dimension: int) -> Sequence[Any]:
    out: list[Any] = []
    start = 0
    for x in operands:
        stop = start + aval_of(x).shape[dimension]
        out.append(st.slice_in_dim(ct, start, stop, axis=dimension) if isinstance(x, Linear) else None)
        start = stop
    return out


@jvp(st.pad_p)
def pad(
    primals: Sequence[Value], tangents: Sequence[Any], *, padding_config: tuple[tuple[int, int, int], ...]
) -> tuple[Value, Value]:
    return st.pad_p.bind(*primals, padding_config=padding_config), st.pad_p.bind(
        *map(instantiate, tangents), padding_config=padding_config
    )


@transpose(st.pad_p)
def pad_back(ct: Value, x: Any, value: Any, *, padding_config: tuple[tuple[int, int, int], ...]) -> Sequence[Any]:
    cropped = st.pad(ct, _zero(ct), [(-lo, -hi, 0) for lo, hi, _ in padding_config])
    strides = [i + 1 for _, _, i in padding_config]
    ct_x = st.slice(cropped, [0] * len(strides), aval_of(cropped).shape, strides)
    ct_value = None
    if isinstance(value, Linear):
        every = range(aval_of(ct).ndim)
        ct_value = ew.sub(rd.reduce_sum(ct, every), rd.reduce_sum(ct_x, every))
    return [ct_x if isinstance(x, Linear) else None, ct_value]


@jvp(st.split_p)
def split(primals: Sequence[Value], tangents: Sequence[Any], **params: Any) -> tuple[list[Value], list[Value]]:
    return st.split_p.bind(*primals, **params), st.split_p.bind(*tangents, **params)


@transpose(st.split_p)
def split_back(cts: Sequence[Any], x: Any, *, sizes: tuple[int, ...], axis: int) -> Sequence[Any]:
    if all(is_zero(ct) for ct in cts):
        return [Zero(x.aval)]
    return [st.concatenate([instantiate(ct) for ct in cts], axis)]


def _barrier(values: Sequence[Any]) -> list[Any]:
    """A barrier on those that are not symbolic zeros."""
    passed = iter(st.optimization_barrier(*(v for v in values if not is_zero(v))))
    return [v if is_zero(v) else next(passed) for v in values]


@jvp(st.optimization_barrier_p)
def optimization_barrier(primals: Sequence[Value], tangents: Sequence[Any]) -> tuple[list[Value], list[Any]]:
    return st.optimization_barrier_p.bind(*primals), _barrier(tangents)


@transpose(st.optimization_barrier_p)
def optimization_barrier_back(cts: Sequence[Any], *operands: Any) -> Sequence[Any]:
    return [ct if isinstance(x, Linear) else None for ct, x in zip(_barrier(cts), operands)]
