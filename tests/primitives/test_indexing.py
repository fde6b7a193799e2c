"""gather, scatter and dynamic slices: compiled against the reference against JAX, with every index value; errors."""

from __future__ import annotations

import dataclasses
from itertools import product

import jax.lax as jl
import numpy as np
import pytest

import quire
import quire.lax
import quire.numpy
from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives.indexing import GatherDimensionNumbers as G
from quire.ir.primitives.indexing import ScatterDimensionNumbers as S
from tests.helpers import Case, check, thinned
from tests.primitives.oracles import edge_array, tame_array, under_jax

MODES = ["clip", "fill", "promise_in_bounds"]
SHAPE = (4, 5, 3)


def jax_numbers(d):
    cls = jl.GatherDimensionNumbers if isinstance(d, G) else jl.ScatterDimensionNumbers
    return cls(**dataclasses.asdict(d))


# (dimension numbers, slice sizes, shape of the indices) of gathers from SHAPE
GATHERS = [
    (G((1, 2), (0,), (0,)), (1, 5, 3), (6, 1)),
    (G((0, 2), (1,), (1,)), (4, 1, 3), (6, 1)),
    (G((1,), (0, 1), (0, 1)), (1, 1, 3), (6, 2)),
    (G((1,), (0, 2), (2, 0)), (1, 5, 1), (6, 2)),
    (G((), (0, 1, 2), (0, 1, 2)), (1, 1, 1), (2, 3, 3)),
    (G((2, 3, 4), (), (0, 1)), (2, 3, 3), (2, 3, 2)),
    (G((0, 1, 2), (), (1,)), (4, 2, 3), (1,)),
    (G((1, 2), (), (1,), (0,), (0,)), (1, 2, 3), (4, 1)),
    (G((2,), (1,), (1,), (0,), (1,)), (1, 1, 3), (2, 4, 1)),
    (G((), (1,), (1,), (0, 2), (0, 1)), (1, 1, 1), (4, 3, 1)),
]


def scatter_numbers(d):
    """The scatter that writes where a gather reads."""
    return S(
        d.offset_dims, d.collapsed_slice_dims, d.start_index_map, d.operand_batching_dims, d.start_indices_batching_dims
    )


def indices_of(shape, dtype, mode, seed=0):
    """Indices around and far beyond the bounds; inside for promise_in_bounds."""
    rng = np.random.default_rng(seed)
    if mode == "promise_in_bounds":
        return rng.integers(0, 2, shape).astype(dtype)
    info = np.iinfo(dtype)
    pool = np.array(
        [0, 1, 2, 3, 4, 5, info.max, info.max - 1, info.min, max(info.min, -1), max(info.min, -5), 100], dtype
    )
    return np.where(
        rng.random(shape) < 0.6, rng.integers(0, 3, shape).astype(dtype), pool[rng.integers(0, len(pool), shape)]
    )


def gather_case(dtype, i, mode, index_dtype=np.int32, fill_value=None):
    d, sizes, shape = GATHERS[i]
    x, at = edge_array(dtype, SHAPE, i), indices_of(shape, index_dtype, mode, i)
    return Case(
        f"gather {dtype} {i} {mode} {np.dtype(index_dtype)}",
        lambda a, b: ix.gather(a, b, d, sizes, mode=mode, fill_value=fill_value),
        (x, at),
        under_jax(lambda a, b: jl.gather(a, b, jax_numbers(d), sizes, mode=mode, fill_value=fill_value)),
        exact=True,
    )


def test_gather_over_every_dtype(x64):
    check([gather_case(d, i, "fill") for d in dtypes.ALL for i in (0, 8)])


def test_gather_of_every_form_and_mode():
    check([gather_case(dtypes.float32, i, mode) for i, mode in product(range(len(GATHERS)), MODES)])


def test_gather_with_every_index_dtype(x64):
    cases = [
        gather_case(dtypes.int32, i, m, d) for d in (*dtypes.SIGNED, *dtypes.UNSIGNED) for i in (2,) for m in MODES[:2]
    ]
    cases += [gather_case(d, 0, "fill", fill_value=v) for d, v in ((np.float32, -1.5), (np.int8, 7), (np.bool_, False))]
    check(cases)


def test_gather_from_a_part_of_an_array():
    """IREE gathers from the larger array, with strides, and fails to compile that (a batched solve did so)."""
    x, i = np.arange(80, dtype=np.float32).reshape(5, 4, 4), np.array([[3, 0, 2, 9]] * 5, np.int32)

    def column(a, k):
        first = quire.lax.slice_in_dim(a, 0, 1, axis=2)
        return quire.numpy.take_along_axis(quire.numpy.squeeze(first, 2), k % 4, axis=1)

    def at_rows(a, k):  # seed 6904244 of the fuzz: the part, transposed
        column = quire.lax.slice_in_dim(a, 61, 62, axis=2)
        return quire.numpy.squeeze(column, 2).T.at[0, k].get(mode="fill", fill_value=3)

    def cropped(a, k):  # seed 7300137: a pad that crops is a part too
        padded = quire.lax.pad(a, np.float32(0), ((2, 1, 0), (1, -1, 2)))
        return quire.numpy.take(padded, k, axis=0, mode="clip")

    narrow, some = np.arange(4, dtype=np.float32).reshape(4, 1) + 1, np.array([3, 5], np.int32)
    wide = np.pad(narrow, ((2, 1), (1, 0)))
    rows = np.arange(15 * 65, dtype=np.int32).reshape(15, 1, 65)
    by_rows = np.array([6, 1, 21], np.int32)
    check([
        Case("column", column, (x, i), lambda a, k: np.take_along_axis(a[:, :, 0], k % 4, axis=1)),
        Case("cropped", cropped, (narrow, some), lambda a, k: wide[:, :1][k]),
        Case("transposed", at_rows, (rows, by_rows), lambda a, k: np.where(k < 15, a[k % 15, 0, 61], 3)),
    ])  # fmt: skip


def test_gather_of_nothing():
    x = np.ones((4, 0), np.float32)
    d = G((1,), (0,), (0,))
    check(
        [
            Case(
                "empty slices",
                lambda a, i: ix.gather(a, i, d, (1, 0)),
                (x, np.array([[9], [0]])),
                lambda a, i: np.ones((2, 0), np.float32),
            ),
            Case(
                "no indices",
                lambda a, i: ix.gather(a, i, d, (1, 3)),
                (np.ones((4, 3), np.float32), np.zeros((0, 1), np.int32)),
                lambda a, i: np.ones((0, 3), np.float32),
            ),
        ]
    )


OPS = ["scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max"]


def scatter_case(op, dtype, i, mode, index_dtype=np.int32):
    d, sizes, shape = GATHERS[i]
    at = indices_of(shape, index_dtype, mode, i)
    at_shape = np.asarray(
        under_jax(lambda a, b: jl.gather(a, b, jax_numbers(d), sizes, mode="clip"))(np.zeros(SHAPE), at)
    ).shape
    numbers = scatter_numbers(d)
    make = edge_array if op in ("scatter", "scatter_min", "scatter_max") else tame_array
    if dtypes.is_complex(dtype):
        make = tame_array
    x, u = make(dtype, SHAPE, i), make(dtype, at_shape, i + 1)
    f, g = getattr(ix, op), getattr(jl, op)
    # Equal positions: 16-bit floats round once here, after each update in JAX.
    rtol = {dtypes.float16: 1e-2, dtypes.bfloat16: 6e-2, dtypes.float32: 1e-5, dtypes.complex64: 1e-5}.get(
        np.dtype(dtype)
    )
    return Case(
        f"{op} {np.dtype(dtype)} {i} {mode} {np.dtype(index_dtype)}",
        lambda a, b, c: f(a, b, c, numbers, mode=mode),
        (x, at, u),
        under_jax(lambda a, b, c: g(a, b, c, jax_numbers(numbers), mode=mode)),
        rtol=rtol,
    )


def dtypes_of(op):
    return (
        dtypes.ALL
        if op == "scatter"
        else [d for d in dtypes.ALL if d != dtypes.bool_ and (op[8:] not in ("min", "max") or not dtypes.is_complex(d))]
    )


def test_scatter_over_every_dtype(x64):
    check(
        thinned(
            [scatter_case(op, d, 0, "drop") for op in ("scatter", "scatter_add", "scatter_min") for d in dtypes_of(op)],
            2,
        )
    )
    check(
        [scatter_case(op, d, 5, "clip") for op in ("scatter_sub", "scatter_mul", "scatter_max") for d in dtypes_of(op)]
    )


def test_scatter_of_every_form_and_mode():
    check([scatter_case("scatter_add", np.int32, i, mode) for i, mode in product(range(len(GATHERS)), MODES)])


def test_scatter_with_every_index_dtype(x64):
    check([scatter_case("scatter", np.float32, 2, m, d) for d in (*dtypes.SIGNED, *dtypes.UNSIGNED) for m in MODES[:2]])


def test_the_stablehlo_form_of_scatter(monkeypatch, x64):
    from quire.backends import targets

    monkeypatch.setitem(targets.TARGETS, "cpu", dataclasses.replace(targets.TARGETS["cpu"], kernels=False))
    cases = [scatter_case("scatter_add", np.int32, i, mode) for i, mode in product(range(len(GATHERS)), MODES)]
    some = (
        dtypes.bool_,
        dtypes.uint8,
        dtypes.int64,
        dtypes.bfloat16,
        dtypes.float32,
        dtypes.complex64,
        dtypes.complex128,
    )
    cases += [scatter_case("scatter", d, i, "drop") for d in some for i in (0, 5)]
    cases += [scatter_case(op, np.float32, 5, "drop", np.uint64) for op in OPS]
    check(cases)


def test_scatter_apply_works_once_for_each_update():
    x = tame_array(np.float32, (5, 3))
    at = np.array([[1], [3], [1], [9], [-1]], np.int32)
    d = S((1,), (0,), (0,))
    check(
        [
            Case(
                mode,
                lambda a, b, mode=mode: ix.scatter_apply(
                    a, b, lambda v: ew.add(ew.mul(v, v), 1.0), d, update_shape=(5, 3), mode=mode
                ),
                (x, at),
                under_jax(
                    lambda a, b, mode=mode: jl.scatter_apply(
                        a, b, lambda v: v * v + 1, jax_numbers(d), update_shape=(5, 3), mode=mode
                    )
                ),
                rtol=1e-6,
            )
            for mode in ("drop", "clip")
        ]
    )


def test_scatter_applies_functions_that_round(x64):
    """IREE has no code for rounding to even numbers within a scatter: sin and others are made of it."""
    edge = [0.5, 1.5, 2.5, -0.5, -1.5, 0.4, -0.4, -0.0, 0.0, 3.7, 6e4, -2.0, 1025.5, np.inf, -np.inf, np.nan]
    d, at = S((), (0,), (0,)), np.arange(16, dtype=np.int32)[:, None]
    rounded = [
        Case(
            f"round {np.dtype(dtype)}",
            lambda a, i: ix.scatter_apply(a, i, lambda v: ew.round(v, 1), d, update_shape=(16,)),
            (np.asarray(edge).astype(dtype), at),
            lambda a, i: np.rint(a.astype(np.float64)).astype(a.dtype),
            exact=True,
        )
        for dtype in (np.float16, dtypes.bfloat16, np.float32, np.float64)
    ]
    functions = [
        Case(
            f.__name__,
            lambda a, i, f=f: ix.scatter_apply(a, i, f, d, update_shape=(16,)),
            (tame_array(np.float32, (20,)), at),
            rtol=1e-5,
        )
        for f in (ew.sin, ew.cos, ew.tan, ew.digamma)
    ]
    check([*rounded, *functions])


def test_scatter_of_nothing():
    x, d = np.ones((4, 3), np.float32), S((1,), (0,), (0,))
    none, no_rows = np.zeros((0, 1), np.int32), np.ones((0, 3), np.float32)
    check(
        [
            Case("no updates", lambda a, i, u: ix.scatter(a, i, u, d), (x, none, no_rows), lambda a, i, u: a),
            Case(
                "no operand",
                lambda a, i, u: ix.scatter_add(a, i, u, d),
                (x[:, :0], np.array([[7]]), x[:1, :0]),
                lambda a, i, u: a,
            ),
        ]
    )


def test_dynamic_slices_are_clamped(x64):
    cases = []
    for dtype in dtypes.ALL:
        x, u = edge_array(dtype, (4, 5), 1), edge_array(dtype, (2, 3), 2)
        for i, index_dtype in enumerate((np.int32, np.int8, np.uint8, np.int64, np.uint64)):
            info = np.iinfo(index_dtype)
            starts = [(1, 2), (info.max, info.min), (max(info.min, -1), 4)][i % 3]
            s = [np.asarray(v, index_dtype) for v in starts]
            cases.append(
                Case(
                    f"slice {dtype} {s}",
                    lambda a, i, j: ix.dynamic_slice(a, (i, j), (2, 3)),
                    (x, *s),
                    exact=True,
                    expect=lambda a, i, j: a[_clamped(i, 2)][:, _clamped(j, 2, 3)],
                )
            )
            cases.append(
                Case(
                    f"update {dtype} {s}",
                    lambda a, b, i, j: ix.dynamic_update_slice(a, b, (i, j)),
                    (x, u, *s),
                    exact=True,
                    expect=_updated,
                )
            )
    check(thinned(cases, 3))


def _clamped(start, last, size=2):
    start = min(max(int(start), 0), last)
    return slice(start, start + size)


def _updated(a, b, i, j):
    out = a.copy()
    out[_clamped(i, 2), _clamped(j, 2, 3)] = b
    return out


def test_helpers_of_one_dimension():
    x = tame_array(np.float32, (4, 5))
    i = np.int32(2)
    check(
        [
            Case("slice_in_dim", lambda a, k: ix.dynamic_slice_in_dim(a, k, 3, 1), (x, i), lambda a, k: a[:, 2:5]),
            Case("index_in_dim", lambda a, k: ix.dynamic_index_in_dim(a, k, 1, False), (x, i), lambda a, k: a[:, 2]),
            Case(
                "update_index",
                lambda a, k: ix.dynamic_update_index_in_dim(a, np.zeros(5, np.float32), k, 0),
                (x, i),
                lambda a, k: np.where(np.arange(4)[:, None] == 2, 0, a).astype(np.float32),
            ),
            Case(
                "take",
                lambda a, k: ix.take_along_axis(a, k, 1),
                (x, np.argsort(x, 1).astype(np.int32)),
                lambda a, k: np.sort(a, 1),
            ),
        ]
    )


def test_arguments_are_never_written():
    x = np.zeros((4, 5), np.uint8)
    u = np.ones((1, 5), np.uint8)
    at = np.array([[1]], np.int32)
    d = S((1,), (0,), (0,))
    check(
        [
            Case("scatter", lambda a, i, v: [ix.scatter(a, i, v, d), ew.add(a, a)], (x, at, u)),
            Case("update", lambda a, v: [ix.dynamic_update_slice(a, v, (1, 0)), ew.add(a, a)], (x, u)),
            Case("alone", lambda a, v: ix.dynamic_update_slice(a, v, (1, 0)), (x, u)),
        ]
    )


X = ShapedArray((4, 5), dtypes.float32)
I = ShapedArray((6, 1), dtypes.int32)  # noqa: E741
FLAGS = {"indices_are_sorted": False, "unique_indices": False, "mode": ix.GatherScatterMode.CLIP}


def infer_gather(d, sizes=(1, 5), x=X, i=I):
    return ix.gather_p.type_rule(x, i, dimension_numbers=d, slice_sizes=sizes, fill_value=None, **FLAGS)


def infer_scatter(d, u, x=X, i=I):
    return ix.scatter_add_p.type_rule(x, i, u, dimension_numbers=d, **FLAGS)


U = ShapedArray((6, 5), dtypes.float32)


@pytest.mark.parametrize(
    ("infer", "error", "text"),
    [
        (
            lambda: infer_gather(G((1,), (0,), (0,)), i=U),
            TypeError,
            "gather: indices f32[6,5] must have an integer dtype",
        ),
        (
            lambda: infer_gather(G((1,), (0,), (0, 1))),
            TypeError,
            "gather: start_index_map (0, 1) must hold one dimension for each of the 1 components of an index vector",
        ),
        (
            lambda: infer_gather(G((1,), (2,), (0,))),
            TypeError,
            "gather: collapsed_slice_dims (2,) must be increasing and within [0, 2)",
        ),
        (
            lambda: infer_gather(G((1,), (0,), (0,)), (2, 5)),
            TypeError,
            "gather: slice_sizes (2, 5) must be 1 along the collapsed dimension 0",
        ),
        (
            lambda: infer_gather(G((1,), (0,), (0,)), (1, 6)),
            TypeError,
            "gather: slice_sizes (1, 6) must hold, for each dimension of f32[4,5], a size within that dimension",
        ),
        (
            lambda: infer_gather(G((), (0,), (0,))),
            TypeError,
            "gather: offset_dims () must hold one dimension for each of the 1 dimensions of a slice",
        ),
        (
            lambda: infer_gather(G((1,), (), (1,), (0,), (0,)), (1, 5)),
            TypeError,
            "gather: batching dimension 0 of operand f32[4,5] and 0 of indices i32[6,1] must have one size",
        ),
        (
            lambda: infer_scatter(S((1,), (0,), (0,)), ShapedArray((6, 5), dtypes.int32)),
            TypeError,
            "scatter-add: the operands must have one dtype, got f32[4,5], i32[6,5]",
        ),
        (
            lambda: infer_scatter(S((1,), (0,), (0,)), ShapedArray((7, 5), dtypes.float32)),
            TypeError,
            "scatter-add: updates f32[7,5] must have the indices' shape (6,) outside update_window_dims (1,), not (7,)",
        ),
        (
            lambda: infer_scatter(S((1,), (0,), (0,)), ShapedArray((6, 9), dtypes.float32)),
            TypeError,
            "scatter-add: dimension 1 of updates f32[6,9] must not be larger than dimension 1 of f32[4,5]",
        ),
        (
            lambda: infer_scatter(S((0, 1), (0,), (0,)), U),
            TypeError,
            "scatter-add: update_window_dims (0, 1) must hold one dimension",
        ),
        (
            lambda: ix.dynamic_slice_p.type_rule(X, ShapedArray((), dtypes.int32), slice_sizes=(1, 1)),
            TypeError,
            "dynamic_slice: expected one start index for each dimension of f32[4,5], got 1",
        ),
        (
            lambda: ix.dynamic_slice_p.type_rule(X, *[ShapedArray((), dtypes.float32)] * 2, slice_sizes=(1, 1)),
            TypeError,
            "dynamic_slice: start indices must be integer scalars, got f32[]",
        ),
        (
            lambda: ix.dynamic_slice_p.type_rule(X, *[ShapedArray((), dtypes.int32)] * 2, slice_sizes=(1, 6)),
            TypeError,
            "dynamic_slice: slice_sizes (1, 6) must hold, for each dimension of f32[4,5], a size within that dimension",
        ),
        (
            lambda: ix.dynamic_update_slice_p.type_rule(X, U, *[ShapedArray((), dtypes.int32)] * 2),
            TypeError,
            "dynamic_update_slice: the update f32[6,5] must have the rank of f32[4,5] and fit into it",
        ),
        (
            lambda: ix.GatherScatterMode.of("wrap"),
            ValueError,
            "unknown index mode 'wrap': expected clip, fill, drop or promise_in_bounds",
        ),
    ],
)
def test_errors_tell_what_was_given_and_expected(infer, error, text):
    with pytest.raises(error) as caught:
        infer()
    assert text in str(caught.value)
