"""Counterparts of StableHLO's and CHLO's operations on arrays: elementwise, structural, contractions."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitive import PRIMITIVES
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import fft as ff
from quire.ir.primitives import linalg as la
from quire.ir.primitives import random as rn
from quire.ir.primitives import structural as st

from .comparators import ordered
from .mlir_reading import (
    aval_of_value,
    constant,
    flag,
    integer,
    ints,
    named_lists,
    refuse,
    text_of,
    word,
)
from .stablehlo_walk import OPERATIONS, Walk, counterpart

Value = Any

# -- elementwise ------------------------------------------------------------------------------------------------------------

#: Primitives by the operation that the declarations name; those whose thin function is more than the primitive.
_DECLARED: dict[str, Callable[..., Value]] = {
    p.stablehlo: p.bind for p in PRIMITIVES.values() if p.stablehlo
} | {"real": ew.real, "imag": ew.imag, "chlo.conj": ew.conj}  # fmt: skip
#: Other names of operations, and the parameters that an operation's name says.
_OTHERS: dict[str, Callable[..., Value]] = {
    "chlo.tan": ew.tan, "round_nearest_afz": functools.partial(ew.round, rounding_method=0),
    "round_nearest_even": functools.partial(ew.round, rounding_method=1),
}  # fmt: skip


def _elementwise(f: Callable[..., Value]) -> Callable[..., Value]:
    def rule(walk: Walk, op: Any, *values: Value) -> Value:
        return f(*values)

    return rule


for _name, _f in (_DECLARED | _OTHERS).items():
    counterpart(_name)(_elementwise(_f))


def _broadcasting(f: Callable[..., Value]) -> Callable[..., Value]:
    def rule(walk: Walk, op: Any, *values: Value) -> Value:
        shape = np.broadcast_shapes(*(aval_of(x).shape for x in values))
        return f(*(st.broadcast_to(x, shape) for x in values))

    return rule


for _p in PRIMITIVES.values():
    if _p.stablehlo and _p.arity == 2:
        counterpart("chlo.broadcast_" + _p.stablehlo.removeprefix("chlo."))(_broadcasting(_p.bind))


@counterpart("power")
def power(walk: Walk, op: Any, x: Value, y: Value) -> Value:
    aval = aval_of(x)
    if dtypes.is_inexact(aval.dtype):
        return ew.pow(x, y)
    one = np.ones((), aval.dtype)[()]
    found: Value = st.full(aval.shape, one)
    for _ in range(8 * aval.dtype.itemsize):  # by repeated squaring, bit by bit of y
        odd = ew.eq(ew.bitwise_and(y, one), one)
        found = ew.select_n(odd, found, ew.mul(found, x))
        x, y = ew.mul(x, x), ew.shift_right_logical(y, one)
    return found


@counterpart("chlo.is_inf", "chlo.is_pos_inf", "chlo.is_neg_inf")
def is_inf(walk: Walk, op: Any, x: Value) -> Value:
    x = ew.abs(x) if op.name == "chlo.is_inf" else x
    bound = np.asarray(-np.inf if op.name == "chlo.is_neg_inf" else np.inf, aval_of(x).dtype)[()]
    return ew.eq(x, bound)


_COMPARE = {"EQ": ew.eq, "NE": ew.ne, "LT": ew.lt, "LE": ew.le, "GT": ew.gt, "GE": ew.ge}


@counterpart("compare")
def compare(walk: Walk, op: Any, x: Value, y: Value) -> Value:
    if word(op, "compare_type") == "TOTALORDER":
        d = aval_of(x).dtype
        x, y = ordered(x, d), ordered(y, d)
    return _COMPARE[word(op, "comparison_direction")](x, y)


@counterpart("select")
def select(walk: Walk, op: Any, which: Value, on_true: Value, on_false: Value) -> Value:
    return ew.select_n(which, on_false, on_true)


@counterpart("clamp")
def clamp(walk: Walk, op: Any, low: Value, x: Value, high: Value) -> Value:
    return ew.clamp(low, x, high)


@counterpart("convert")
def convert(walk: Walk, op: Any, x: Value) -> Value:
    dtype = aval_of_value(op.results[0], op).dtype
    return x if dtype == aval_of(x).dtype else ew.convert_element_type(x, dtype)


@counterpart("bitcast_convert")
def bitcast_convert(walk: Walk, op: Any, x: Value) -> Value:
    out, given = aval_of_value(op.results[0], op), aval_of(x)
    if dtypes.is_complex(out.dtype) or dtypes.is_complex(given.dtype):
        raise refuse(op, "of complex numbers there is no counterpart")
    return ew.bitcast_convert_type(x, out.dtype)


@counterpart("reduce_precision")
def reduce_precision(walk: Walk, op: Any, x: Value) -> Value:
    return ew.reduce_precision(x, integer(op, "exponent_bits"), integer(op, "mantissa_bits"))


# -- constants and shapes -----------------------------------------------------------------------------------------------------


@counterpart("constant", "chlo.constant")
def constant_(walk: Walk, op: Any) -> Value:
    value, splat = constant(op)
    aval = aval_of_value(op.results[0], op)
    return st.full(aval.shape, value[()]) if splat and aval.shape else value[()] if splat else value


@counterpart("iota")
def iota(walk: Walk, op: Any) -> Value:
    aval = aval_of_value(op.results[0], op)
    return st.broadcasted_iota(aval.dtype, aval.shape, integer(op, "iota_dimension"))


@counterpart("broadcast_in_dim")
def broadcast_in_dim(walk: Walk, op: Any, x: Value) -> Value:
    shape = aval_of_value(op.results[0], op).shape
    return x if shape == aval_of(x).shape else st.broadcast_in_dim(x, shape, ints(op, "broadcast_dimensions"))


@counterpart("broadcast")
def broadcast(walk: Walk, op: Any, x: Value) -> Value:
    return st.broadcast(x, ints(op, "broadcast_sizes"))


@counterpart("reshape")
def reshape(walk: Walk, op: Any, x: Value) -> Value:
    shape = aval_of_value(op.results[0], op).shape
    return x if shape == aval_of(x).shape else st.reshape(x, shape)


@counterpart("transpose")
def transpose(walk: Walk, op: Any, x: Value) -> Value:
    return st.transpose(x, ints(op, "permutation"))


@counterpart("reverse")
def reverse(walk: Walk, op: Any, x: Value) -> Value:
    return st.rev(x, ints(op, "dimensions"))


@counterpart("concatenate")
def concatenate(walk: Walk, op: Any, *xs: Value) -> Value:
    return st.concatenate(xs, integer(op, "dimension"))


@counterpart("pad")
def pad(walk: Walk, op: Any, x: Value, value: Value) -> Value:
    config = zip(ints(op, "edge_padding_low"), ints(op, "edge_padding_high"), ints(op, "interior_padding"))
    return st.pad(x, value, list(config))


@counterpart("slice")
def slice_(walk: Walk, op: Any, x: Value) -> Value:
    strides = ints(op, "strides")
    return st.slice(x, ints(op, "start_indices"), ints(op, "limit_indices"), None if set(strides) <= {1} else strides)


@counterpart("get_dimension_size")
def get_dimension_size(walk: Walk, op: Any, x: Value) -> Value:
    return np.int32(aval_of(x).shape[integer(op, "dimension")])


@counterpart("optimization_barrier")
def optimization_barrier(walk: Walk, op: Any, *xs: Value) -> list[Value]:
    return st.optimization_barrier(*xs)


@counterpart("tuple", "get_tuple_element")
def tuple_(walk: Walk, op: Any, *xs: Value) -> Value:
    raise refuse(op, "tuples have no counterpart: export the program with flat results")


@counterpart("partition_id", "replica_id")
def partition_id(walk: Walk, op: Any) -> Value:
    """A program is imported for one device, whose number is 0."""
    return np.uint32(0)


# -- contractions ---------------------------------------------------------------------------------------------------------------


def _precision(op: Any) -> Any:
    found = re.findall(r"\b(DEFAULT|HIGH|HIGHEST)\b", text_of(op, "precision_config"))
    if len(found) != 2 or set(found) == {"DEFAULT"}:
        return None
    return tuple(ct.Precision[p] for p in found)


def _preferred(op: Any, x: Value) -> Any:
    """The dtype of the result, where that is not the operands': else quire's own choice, which is the same."""
    out = aval_of_value(op.results[0], op).dtype
    return None if out == aval_of(x).dtype else out


@counterpart("dot_general")
def dot_general(walk: Walk, op: Any, x: Value, y: Value) -> Value:
    if "dot_dimension_numbers" in op.attributes:
        found = named_lists(text_of(op, "dot_dimension_numbers"))
    else:
        names = (
            "lhs_contracting_dimensions",
            "rhs_contracting_dimensions",
            "lhs_batching_dimensions",
            "rhs_batching_dimensions",
        )
        found = {name: ints(op, name) for name in names}
    lists = [
        found.get(f"{side}_{kind}_dimensions", ()) for kind in ("contracting", "batching") for side in ("lhs", "rhs")
    ]
    numbers = ((lists[0], lists[1]), (lists[2], lists[3]))
    return ct.dot_general(x, y, numbers, _precision(op), _preferred(op, x))


@counterpart("dot")
def dot(walk: Walk, op: Any, x: Value, y: Value) -> Value:
    numbers = (((aval_of(x).ndim - 1,), (0,)), ((), ()))
    return ct.dot_general(x, y, numbers, _precision(op), _preferred(op, x))


def _spec(text: str, first: str) -> tuple[int, ...]:
    """``b, 0, 1, f`` as the dimensions of batch, feature and the spatial ones."""
    entries = [e.strip() for e in text.split(",")]
    spatial = sorted((e for e in entries if e.isdigit()), key=int)
    return tuple(entries.index(e) for e in (*first, *spatial))


def _conv_specs(op: Any) -> ct.ConvDimensionNumbers:
    if "dimension_numbers" in op.attributes:
        found = re.search(r"\[([^\]]*)\]x\[([^\]]*)\]->\[([^\]]*)\]", text_of(op, "dimension_numbers"))
        if found is None:
            raise refuse(op, f"unknown dimension numbers {text_of(op, 'dimension_numbers')}")
        return ct.ConvDimensionNumbers(_spec(found[1], "bf"), _spec(found[2], "oi"), _spec(found[3], "bf"))

    def spec(side: str, first: str, second: str) -> tuple[int, ...]:
        return (
            integer(op, f"{side}_{first}_dimension"),
            integer(op, f"{side}_{second}_dimension"),
            *ints(op, f"{side}_spatial_dimensions"),
        )

    return ct.ConvDimensionNumbers(
        spec("input", "batch", "feature"),
        spec("kernel", "output_feature", "input_feature"),
        spec("output", "batch", "feature"),
    )


@counterpart("convolution")
def convolution(walk: Walk, op: Any, x: Value, k: Value) -> Value:
    spec = _conv_specs(op)
    n = aval_of(x).ndim - 2
    ones = (1,) * n
    pads = ints(op, "padding", (0, 0) * n)
    reversal = ints(op, "window_reversal", (0,) * n)
    turned = [d for d, r in zip(spec.rhs_spec[2:], reversal) if r]
    return ct.conv_general_dilated_p.bind(
        x, st.rev(k, turned) if turned else k, window_strides=ints(op, "window_strides", ones),
        padding=tuple(zip(pads[::2], pads[1::2])), lhs_dilation=ints(op, "lhs_dilation", ones),
        rhs_dilation=ints(op, "rhs_dilation", ones), dimension_numbers=spec,
        feature_group_count=integer(op, "feature_group_count", 1), batch_group_count=integer(op, "batch_group_count", 1),
        precision=_precision(op), preferred_element_type=_preferred(op, x),
    )  # fmt: skip


@counterpart("fft")
def fft(walk: Walk, op: Any, x: Value) -> Value:
    return ff.fft(x, word(op, "fft_type"), ints(op, "fft_length"))


@counterpart("cholesky")
def cholesky(walk: Walk, op: Any, x: Value) -> Value:
    if flag(op, "lower"):
        return la.cholesky(x)
    return la.transpose_last(la.cholesky(la.transpose_last(x, True)), True)


@counterpart("triangular_solve")
def triangular_solve(walk: Walk, op: Any, a: Value, b: Value) -> Value:
    how = word(op, "transpose_a")
    return la.triangular_solve(
        a, b, left_side=flag(op, "left_side"), lower=flag(op, "lower"), transpose_a=how in ("TRANSPOSE", "ADJOINT"),
        conjugate_a=how == "ADJOINT", unit_diagonal=flag(op, "unit_diagonal"),
    )  # fmt: skip


# -- random numbers ---------------------------------------------------------------------------------------------------------------

_ALGORITHMS = {"DEFAULT": 0, "THREE_FRY": 1, "PHILOX": 2}


@counterpart("rng_bit_generator")
def rng_bit_generator(walk: Walk, op: Any, state: Value) -> list[Value]:
    out = aval_of_value(op.results[1], op)
    unsigned = np.dtype(f"uint{8 * out.dtype.itemsize}")
    new_state, bits = rn.rng_bit_generator_p.bind(
        state, shape=out.shape, dtype=unsigned, algorithm=rn.RandomAlgorithm(_ALGORITHMS[word(op, "rng_algorithm")])
    )
    return [new_state, bits if out.dtype == unsigned else ew.bitcast_convert_type_p.bind(bits, new_dtype=out.dtype)]


@counterpart("rng")
def rng(walk: Walk, op: Any, a: Value, b: Value, shape: Value) -> Value:
    if word(op, "rng_distribution") != "UNIFORM":
        raise refuse(op, "a distribution without a key that is not uniform has no counterpart")
    return rn.rng_uniform(a, b, aval_of_value(op.results[0], op).shape)


__all__ = ["OPERATIONS"]
