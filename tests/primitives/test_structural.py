"""Structural primitives: compiled against the reference against JAX, over every dtype; their errors."""

from __future__ import annotations

import jax.lax as jl
import numpy as np
import pytest

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.primitives import structural as st
from tests.helpers import Case, check, thinned, trace
from tests.primitives.oracles import edge_array, under_jax

NUMBER_DTYPES = [d for d in dtypes.ALL if d != dtypes.bool_]


def _cases(dtype: np.dtype) -> list[Case]:
    x = edge_array(dtype, (3, 4, 5))
    y = edge_array(dtype, (3, 2, 5), 1)
    v = edge_array(dtype, (), 2)
    empty = edge_array(dtype, (0, 4), 3)
    one = edge_array(dtype, (1, 4, 1), 4)

    def case(name, f, g, *args):
        return Case(f"{name} {dtype}", f, args, under_jax(g), exact=True)

    def both(name, *args, operands=(x,)):
        return case(
            f"{name} {args}",
            lambda *xs: getattr(st, name)(*xs, *args),
            lambda *xs: getattr(jl, name)(*xs, *args),
            *operands,
        )

    pads = [
        ((1, 2, 0), (0, 0, 1), (-1, 1, 0)),
        ((-1, -1, 2), (3, -2, 1), (0, 0, 0)),
        ((-4, 9, 1), (-3, 3, 0), (2, -6, 0)),
    ]
    thin = edge_array(dtype, (3, 4, 1), 5)
    return [
        both("broadcast_in_dim", (2, 3, 4, 5), (1, 2, 3)),
        both("broadcast_in_dim", (2, 3), (), operands=(v,)),
        both("broadcast_in_dim", (3, 4, 2), (0, 1, 2), operands=(thin,)),
        both("reshape", (4, 15)),
        both("reshape", (1, 1), operands=(v,)),
        both("transpose", (2, 0, 1)),
        both("rev", (0, 2)),
        both("rev", (0,), operands=(empty,)),
        both("expand_dims", (0, 2)),
        both("tile", (2, 1, 3)),
        both("broadcast", (2, 1)),
        both("slice", (1, 0, 2), (3, 4, 5), (1, 3, 2)),
        both("slice", (1, 1, 1), (1, 2, 2)),
        both("squeeze", (0, -1), operands=(one,)),
        both("split", (1, 0, 3), 1),
        *(both("pad", p, operands=(x, v)) for p in pads),
        both("pad", ((1, 1, 3), (0, 0, 0)), operands=(empty, v)),
        case("concatenate", lambda a, b: st.concatenate([a, b, a], 1), lambda a, b: jl.concatenate([a, b, a], 1), x, y),
        case("concatenate empty", lambda a: st.concatenate([a, a], 0), lambda a: jl.concatenate([a, a], 0), empty),
        case("barrier", lambda a, b: st.optimization_barrier(a, b), lambda a, b: [a, b], x, y),
        case("full", lambda a: st.full((2, 3), a), lambda a: jl.full((2, 3), a), v),
        case("tile scalar", lambda a: st.tile(a, (2,)), lambda a: jl.broadcast(a, (2,)), v),
    ]


GROUPS = {"signed": dtypes.ALL[:5], "unsigned": dtypes.ALL[5:9], "inexact": dtypes.ALL[9:]}


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_moves_elements_as_jax_does(group, x64):
    check(thinned([c for d in group for c in _cases(d)], 3))


def _iota_case(dtype: np.dtype, dimension: int) -> Case:
    def f():
        return st.broadcasted_iota(dtype, (3, 200), dimension)

    return Case(f"iota {dtype}", f, (), under_jax(lambda: jl.broadcasted_iota(dtype, (3, 200), dimension)))


def test_iota(x64):
    check([_iota_case(d, i) for d in NUMBER_DTYPES for i in (0, 1)])


def test_slice_in_dim_takes_python_bounds():
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    check(
        [
            Case("open", lambda a: st.slice_in_dim(a, None, None, 2, axis=1), (x,), lambda a: a[:, ::2]),
            Case("negative", lambda a: st.slice_in_dim(a, -3, -1), (x,), lambda a: a[-3:-1]),
        ]
    )


def test_identities_bind_nothing():
    x = np.ones((2, 3), np.float32)

    def f(a):
        assert st.reshape(a, (2, 3)) is a
        assert st.transpose(a, (0, 1)) is a
        assert st.pad(a, 0.0, ((0, 0, 0), (0, 0, 0))) is a
        assert st.slice(a, (0, 0), (2, 3), (1, 1)) is a
        assert st.concatenate([a], 0) is a
        return st.tile(a, (1, 1))

    assert not trace(f, [x]).eqns


F32 = ShapedArray((2, 3), dtypes.float32)
I32 = ShapedArray((2, 3), dtypes.int32)
SCALAR = ShapedArray((), dtypes.float32)


@pytest.mark.parametrize(
    ("infer", "error", "text"),
    [
        (
            lambda: st.squeeze_p.type_rule(F32, dimensions=(0,)),
            ValueError,
            "squeeze: dimension 0 of the operand f32[2,3] must have size 1 to be removed",
        ),
        (
            lambda: st.rev_p.type_rule(F32, dimensions=(2,)),
            ValueError,
            "rev: axes (2,) must be distinct and within [0, 2), the operand's rank",
        ),
        (lambda: st.concatenate_p.type_rule(dimension=0), TypeError, "concatenate: expected at least one operand"),
        (
            lambda: st.concatenate_p.type_rule(F32, I32, dimension=0),
            TypeError,
            "concatenate: the operands must have one dtype, got f32[2,3], i32[2,3]",
        ),
        (
            lambda: st.concatenate_p.type_rule(F32, SCALAR, dimension=0),
            TypeError,
            "concatenate: the operands' shapes must be equal but for dimension 0, got f32[2,3], f32[]",
        ),
        (
            lambda: st.pad_p.type_rule(F32, F32, padding_config=((0, 0, 0),) * 2),
            ValueError,
            "pad: padding_value f32[2,3] must be a scalar",
        ),
        (
            lambda: st.pad_p.type_rule(F32, SCALAR, padding_config=((0, 0, 0),)),
            ValueError,
            "must hold (low, high, interior) for each dimension of f32[2,3]",
        ),
        (
            lambda: st.pad_p.type_rule(F32, SCALAR, padding_config=((0, 0, -1), (0, 0, 0))),
            ValueError,
            "pad: interior padding must not be negative",
        ),
        (
            lambda: st.pad_p.type_rule(F32, SCALAR, padding_config=((-2, -1, 0), (0, 0, 0))),
            ValueError,
            "removes more than there is of f32[2,3]",
        ),
        (
            lambda: st.slice_p.type_rule(F32, start_indices=(0, 2), limit_indices=(2, 4), strides=None),
            TypeError,
            "slice: dimension 1 of f32[2,3]: expected 0 <= start <= limit <= 3, got start 2, limit 4",
        ),
        (
            lambda: st.slice_p.type_rule(F32, start_indices=(0,), limit_indices=(2,), strides=None),
            TypeError,
            "must hold one value for each dimension of f32[2,3]",
        ),
        (
            lambda: st.slice_p.type_rule(F32, start_indices=(0, 0), limit_indices=(2, 3), strides=(1, 0)),
            TypeError,
            "slice: strides must be positive, got (1, 0)",
        ),
        (
            lambda: st.iota_p.type_rule(dtype=dtypes.int32, shape=(3,), dimension=1),
            ValueError,
            "iota: dimension 1 must be within [0, 1), the rank of shape (3,)",
        ),
        (
            lambda: st.iota_p.type_rule(dtype=dtypes.bool_, shape=(3,), dimension=0),
            TypeError,
            "iota: result bool[3] has dtype bool, expected a number dtype",
        ),
        (
            lambda: st.split_p.type_rule(F32, sizes=(1, 1), axis=1),
            ValueError,
            "split: sizes (1, 1) must be non-negative and add up to 3, the size of dimension 1 of f32[2,3]",
        ),
        (
            lambda: st.tile_p.type_rule(F32, reps=(1,)),
            ValueError,
            "tile: reps (1,) must hold one non-negative number for each dimension of f32[2,3]",
        ),
        (lambda: st.full((2,), np.zeros(2)), TypeError, "full: fill_value f32[2] must be a scalar"),
    ],
)
def test_errors_tell_what_was_given_and_expected(infer, error, text):
    with pytest.raises(error) as caught:
        infer()
    assert text in str(caught.value)
