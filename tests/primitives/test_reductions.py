"""Reductions: compiled against the reference against JAX, over every dtype; their errors."""

from __future__ import annotations

import dataclasses

import jax.lax as jl
import numpy as np
import pytest

import quire.numpy
from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.tracing import trace_flat
from tests.helpers import Case, check, thinned, trace
from tests.primitives.oracles import edge_array, tame_array, under_jax

NUMBER = [d for d in dtypes.ALL if d != dtypes.bool_]
# Products and sums are taken in another order than JAX's: some units in the last place for each of a few dozen terms.
RTOL = {
    dtypes.float16: 4e-3,
    dtypes.bfloat16: 3e-2,
    dtypes.float32: 1e-5,
    dtypes.complex64: 2e-5,
    dtypes.float64: 1e-13,
    dtypes.complex128: 1e-13,
}
GROUPS = {"signed": dtypes.ALL[:5], "unsigned": dtypes.ALL[5:9], "inexact": dtypes.ALL[9:]}


def both(name, dtype, x, *args, exact=False, jax_name=None):
    f, g = getattr(rd, name), getattr(jl, jax_name or name)
    expect = under_jax(lambda a: g(a, *args))
    # The oracle rounds each step of a half: near 0 that is more than the relative tolerance.
    atol = 2e-3 if name == "cumlogsumexp" and dtype.itemsize == 2 else None
    case = f"{name} {dtype} {x.shape} {args}"
    return Case(case, lambda a: f(a, *args), (x,), expect, rtol=RTOL.get(dtype), atol=atol, exact=exact)


def reduction_cases(dtype):
    shapes = [((3, 4, 5), (0, 2)), ((4,), (0,)), ((3, 0), (1,)), ((2, 70), (1,))]
    cases = []
    for i, (shape, axes) in enumerate(shapes):
        tame, edge = tame_array(dtype, shape, i), edge_array(dtype, shape, i)
        if dtype != dtypes.bool_:
            cases.append(both("reduce_sum", dtype, tame, axes))
            cases.append(both("reduce_prod", dtype, tame[..., :20], axes))
            if not dtypes.is_complex(dtype):
                cases.append(both("reduce_sum", dtype, edge, axes))
        clean = edge_array(dtype, shape, i, nan=False) if dtypes.is_complex(dtype) else edge
        cases += [both(name, dtype, clean, axes) for name in ("reduce_max", "reduce_min")]
        if not dtypes.is_inexact(dtype):
            cases += [both(name, dtype, edge, axes) for name in ("reduce_and", "reduce_or", "reduce_xor")]
        if shape[axes[0]] and len(axes) == 1:
            for name, index_dtype in (("argmax", np.int32), ("argmin", np.uint8)):
                case = both(name, dtype, clean, axes[0], index_dtype)
                # JAX has no complex argmax.
                cases.append(dataclasses.replace(case, expect=None) if dtypes.is_complex(dtype) else case)
    return cases


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_reductions_are_jax_s(group, x64):
    check(thinned([c for d in group for c in reduction_cases(d)], 2))


def cumulative_cases(dtype, shapes=((3, 70), (5, 3, 4), (2, 0), (1, 1))):
    cases = []
    for i, shape in enumerate(shapes):
        for axis, reverse in ((len(shape) - 1, False), (0, True)):
            tame = tame_array(dtype, shape, i)
            # Among complex numbers JAX's neutral value of max is -inf+0j, which is not the least one.
            edge = tame if dtypes.is_complex(dtype) else edge_array(dtype, shape, i)
            cases += [both(name, dtype, tame, axis, reverse) for name in ("cumsum",)]
            cases += [both("cumprod", dtype, tame[..., :10], axis, reverse)]
            cases += [both(name, dtype, edge, axis, reverse) for name in ("cummax", "cummin")]
            if dtypes.is_float(dtype):
                cases.append(both("cumlogsumexp", dtype, edge, axis, reverse))
            elif dtypes.is_complex(dtype):
                cases.append(both("cumlogsumexp", dtype, tame, axis, reverse))
    return cases


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_cumulative_operations_are_jax_s(group, x64):
    check(thinned([c for d in group if d != dtypes.bool_ for c in cumulative_cases(d)], 3))


def test_the_stablehlo_form_of_cumulative_operations(monkeypatch, x64):
    from quire.backends import targets

    monkeypatch.setitem(targets.TARGETS, "cpu", dataclasses.replace(targets.TARGETS["cpu"], kernels=False))
    some = (dtypes.int32, dtypes.uint8, dtypes.float16, dtypes.float32, dtypes.complex64, dtypes.complex128)
    check(thinned([c for d in some for c in cumulative_cases(d, ((3, 20),))], 3))


def test_generic_reduction():
    x = tame_array(np.float32, (3, 4, 5))
    i = np.arange(60, dtype=np.int32).reshape(3, 4, 5)

    def last_max(lib):
        def pick(a, ai, b, bi):
            take = lib["ge"](b, a)
            return lib["select"](take, b, a), lib["select"](take, bi, ai)

        return pick

    ours = {"ge": ew.ge, "select": lambda p, a, b: ew.select_n(p, b, a)}
    jax = {"ge": jl.ge, "select": jl.select}
    low = np.float32(-np.inf)
    check(
        [
            Case(
                "one",
                lambda a: rd.reduce([a], [1.0], lambda p, q: ew.add(ew.mul(p, q), q), (1,)),
                (x,),
                under_jax(lambda a: jl.reduce(a, np.float32(1), lambda p, q: p * q + q, (1,))),
                rtol=1e-5,
            ),
            Case(
                "two",
                lambda a, b: rd.reduce([a, b], [low, np.int32(-1)], last_max(ours), (0, 2)),
                (x, i),
                under_jax(
                    lambda a, b: jl.reduce((a, b), (low, np.int32(-1)), lambda p, q: last_max(jax)(*p, *q), (0, 2))
                ),
            ),
        ]
    )


@pytest.mark.parametrize(
    ("f", "init", "name"),
    [
        (ew.add, 0.0, "reduce_sum"),
        (ew.mul, 1, "reduce_prod"),
        (ew.max, -np.inf, "reduce_max"),
        (ew.min, np.inf, "reduce_min"),
        (ew.add, 1.0, "reduce"),
        (ew.sub, 0.0, "reduce"),
    ],
)
def test_known_monoids_get_their_own_primitive(f, init, name):
    closed = trace(lambda a: rd.reduce([a], [init], f, (0,)), [np.ones(3, np.float32)])
    assert [e.primitive.name for e in closed.eqns] == [name]


def test_sums_of_16_bit_floats_accumulate_in_f32():
    x = np.full(5000, 0.1, np.float16)
    check(
        [Case("f16", lambda a: rd.reduce_sum(a, (0,)), (x,), lambda a: np.float16(np.float32(a[0]) * 5000), rtol=2e-3)]
    )


def test_a_reducer_may_use_constants_but_no_traced_values():
    def f(x):
        return rd.reduce([x], [0.0], lambda a, b: ew.add(a, ew.mul(b, rd.reduce_sum(x, (0,)))), (0,))

    with pytest.raises(ValueError, match="the computation uses a traced value f32\\[3\\] from outside"):
        trace_flat(f, [ShapedArray((3,), dtypes.float32)])


F32 = ShapedArray((2, 3), dtypes.float32)
EMPTY = ShapedArray((0, 3), dtypes.float32)
BOOL = ShapedArray((2,), dtypes.bool_)


@pytest.mark.parametrize(
    ("infer", "error", "text"),
    [
        (
            lambda: rd.reduce_sum_p.type_rule(BOOL, axes=(0,)),
            TypeError,
            "reduce_sum: operand bool[2] has dtype bool, expected a number dtype",
        ),
        (
            lambda: rd.reduce_and_p.type_rule(F32, axes=(0,)),
            TypeError,
            "reduce_and: operand f32[2,3] has dtype float32, expected a bool or integer dtype",
        ),
        (
            lambda: rd.reduce_max_p.type_rule(F32, axes=(0, 0)),
            ValueError,
            "reduce_max: axes (0, 0) must be distinct and within [0, 2)",
        ),
        (
            lambda: rd.argmax_p.type_rule(EMPTY, axes=(0,), index_dtype=dtypes.int32),
            ValueError,
            "argmax: dimension 0 of the operand f32[0,3] must not be empty",
        ),
        (
            lambda: rd.argmin_p.type_rule(F32, axes=(0,), index_dtype=dtypes.float32),
            TypeError,
            "argmin: index_dtype must be an integer dtype, got float32",
        ),
        (
            lambda: rd.cumsum_p.type_rule(BOOL, axis=0, reverse=False),
            TypeError,
            "cumsum: operand bool[2] has dtype bool, expected a number dtype",
        ),
        (lambda: rd.cumsum_p.type_rule(F32, axis=2, reverse=False), ValueError, "cumsum: axes (2,) must be distinct"),
        (
            lambda: (
                trace(lambda a: rd.reduce([a], [0], ew.add, (0,)), [np.ones(3, np.float32)])
                and rd.reduce_p.type_rule(
                    F32, ShapedArray((), dtypes.int32), jaxpr=rd.reducer_jaxpr("reduce", ew.add, [F32]), dimensions=(0,)
                )
            ),
            TypeError,
            "reduce: the initial value i32[] must be a scalar of dtype float32, as f32[2,3]",
        ),
        (
            lambda: rd.reduce_p.type_rule(
                F32, ShapedArray((), dtypes.float32), jaxpr=rd.reducer_jaxpr("reduce", ew.gt, [F32]), dimensions=(0,)
            ),
            TypeError,
            "reduce: the computation must return (f32[]) for (f32[], f32[]), it returns (bool[])",
        ),
    ],
)
def test_errors_tell_what_was_given_and_expected(infer, error, text):
    with pytest.raises(error) as caught:
        infer()
    assert text in str(caught.value)


def test_sums_of_products_with_rows():
    """A weighted sum over several dimensions: IREE fails to make one contraction of it."""
    rng = np.random.default_rng(0)
    x, row, column = (rng.normal(size=s).astype(np.float32) for s in ((3, 4, 5), 5, 4))
    weighted = {
        "row": lambda x, r, c, m: m.sum(x * r),
        "row, some": lambda x, r, c, m: m.sum(x * r, axis=(1, 2)),
        "row and column": lambda x, r, c, m: m.sum(x * (c[:, None] * r), axis=(0, 2)),
        "of a function": lambda x, r, c, m: m.sum(m.exp(m.sin(r)) * x[0]),
        "columns": lambda x, r, c, m: m.sum(x * c[:, None]),
    }
    check(
        [
            Case(
                name,
                lambda *a, f=f: f(*a, quire.numpy),
                (x, row, column),
                lambda *a, f=f: f(*a, np),
                rtol=1e-4,
                atol=1e-5,
            )
            for name, f in weighted.items()
        ]
    )


def test_sums_of_products_with_what_a_kernel_makes():
    """A dispatch has operands of type index, which are looked past when a factor is followed back."""
    x = np.random.default_rng(0).normal(size=(6, 6)).astype(np.float32)
    weights = np.cos(np.arange(36, dtype=np.float32)).reshape(6, 6)

    def f(x):
        return quire.numpy.sum(x.at[:, ::2].add(x[:, :3]) * weights)

    def expect(x):
        y = x.copy()
        y[:, ::2] += x[:, :3]
        return np.sum(y * weights)

    check([Case("weighted update", f, (x,), expect, rtol=1e-5, atol=1e-5)])
