"""Derivative and batching rules of contractions, against JAX and an explicit loop."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import quire
from quire.backends import reference
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.primitives import contraction as ct
from quire.passes.ad.rules import Linear, Zero, jvp, transpose
from quire.passes.batching.rules import Axis, batching
from tests.helpers import trace

RNG = np.random.default_rng(0)


def run(f, *args):
    """A function of traced values, evaluated by the reference."""
    return reference.eval_jaxpr(trace(f, args), *args)


def normal(shape, dtype=np.float32):
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape)).astype(dtype) if np.dtype(dtype).kind == "c" else x.astype(dtype)


def params_of(f, *args):
    (eqn,) = trace(f, args).jaxpr.eqns
    return eqn.primitive, dict(eqn.params)


DOTS = {
    "mm": ((4, 5), (5, 6), (((1,), (0,)), ((), ()))),
    "tn": ((5, 4), (5, 6), (((0,), (0,)), ((), ()))),
    "nt": ((4, 5), (6, 5), (((1,), (1,)), ((), ()))),
    "vector": ((5,), (5,), (((0,), (0,)), ((), ()))),
    "outer": ((3,), (4, 2), (((), ()), ((), ()))),
    "batch": ((3, 4, 5), (3, 5, 6), (((2,), (1,)), ((0,), (0,)))),
    "inner batch": ((4, 3, 5), (5, 6, 3), (((2,), (0,)), ((1,), (2,)))),
    "two": ((2, 3, 4), (4, 5, 3), (((1, 2), (2, 0)), ((), ()))),
    "batches": ((2, 3, 4), (3, 4, 2), (((2,), (1,)), ((1, 0), (0, 2)))),
    "last": ((2, 7, 4), (4, 3), (((2,), (0,)), ((), ()))),
}


def conv(x, k, strides=(1, 1), padding="SAME", **options):
    return (x, k, strides, padding, options)


CONVS = {
    "plain": conv((2, 3, 6, 5), (4, 3, 3, 2)),
    "stride": conv((2, 3, 7, 6), (4, 3, 3, 2), (2, 3), [(1, 0), (2, 1)]),
    "negative": conv((2, 3, 7, 6), (4, 3, 3, 2), (1, 1), [(-1, 2), (1, -2)]),
    "lhs dilation": conv((2, 3, 5, 4), (4, 3, 3, 3), (1, 2), [(1, 2), (2, 1)], lhs_dilation=(2, 3)),
    "rhs dilation": conv((2, 3, 9, 8), (4, 3, 3, 2), (2, 1), "VALID", rhs_dilation=(2, 3)),
    "groups": conv((2, 6, 5, 5), (4, 3, 3, 3), feature_group_count=2),
    "depthwise": conv((2, 4, 5, 5), (8, 1, 3, 3), (2, 1), feature_group_count=4),
    "batch groups": conv((4, 3, 5, 5), (6, 3, 3, 3), batch_group_count=2),
    "nhwc": conv((2, 6, 5, 3), (3, 2, 3, 4), dimension_numbers=("NHWC", "HWIO", "NHWC")),
    "mixed layout": conv((6, 3, 2, 5), (4, 3, 2, 3), dimension_numbers=("HCNW", "OHWI", "WNHC")),
}


def functions(name):
    """A contraction as quire's and as JAX's function, and its operands' shapes."""
    if name in DOTS:
        x, y, dn = DOTS[name]
        return (lambda a, b: ct.dot_general(a, b, dn)), (lambda a, b: lax.dot_general(a, b, dn)), x, y
    x, k, s, p, o = CONVS[name]
    return (
        lambda a, b: ct.conv_general_dilated(a, b, s, p, **o),
        lambda a, b: lax.conv_general_dilated(jnp.asarray(a), jnp.asarray(b), s, p, **o),
        x, k,
    )  # fmt: skip


CASES = [*DOTS, *CONVS]


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("name", CASES)
def test_derivatives_equal_jax(name, dtype):
    f, g, xs, ys = functions(name)
    x, y = normal(xs, dtype), normal(ys, dtype)
    p, params = params_of(f, x, y)
    tx, ty = normal(xs, dtype), normal(ys, dtype)
    out, t_out = run(lambda *a: jvp[p](a[:2], a[2:], **params), x, y, tx, ty)
    want, want_t = jax.jvp(g, (x, y), (tx, ty))
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(t_out, want_t, rtol=1e-4, atol=1e-4)
    only_y = run(lambda *a: jvp[p](a[:2], (Zero(aval_of(x)), a[2]), **params)[1], x, y, ty)[0]
    np.testing.assert_allclose(only_y, jax.jvp(lambda b: g(x, b), (y,), (ty,))[1], rtol=1e-4, atol=1e-4)
    c = normal(np.shape(want), dtype)
    want_x, want_y = jax.vjp(g, x, y)[1](c)
    got_x = run(lambda c, y: transpose[p](c, Linear(aval_of(x)), y, **params)[0], c, y)[0]
    got_y = run(lambda c, x: transpose[p](c, x, Linear(aval_of(y)), **params)[1], c, x)[0]
    np.testing.assert_allclose(got_x, want_x, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(got_y, want_y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dims", [(0, None), (None, 0), (0, 0), (1, None), (None, 1), (1, 0), (-1, -1)])
@pytest.mark.parametrize("name", CASES)
def test_batching_equals_a_loop(name, dims):
    f, g, xs, ys = functions(name)
    dims = tuple(None if d is None else d % (len(s) + 1) for d, s in zip(dims, (xs, ys)))
    size = 3
    args = [normal(s if d is None else (*s[:d], size, *s[d:])) for s, d in zip((xs, ys), dims)]
    p, params = params_of(f, normal(xs), normal(ys))
    out_dim = []

    def batched(a, b):
        out, d = batching[p](Axis(size), [a, b], list(dims), **params)
        out_dim.append(d)
        return out

    got = run(batched, *args)[0]
    loop = [run(f, *(a if d is None else np.take(a, i, d) for a, d in zip(args, dims)))[0] for i in range(size)]
    np.testing.assert_allclose(np.moveaxis(got, out_dim[0], 0), np.stack(loop), rtol=1e-4, atol=1e-4)


def test_an_empty_batch():
    f, _, xs, ys = functions("groups")
    p, params = params_of(f, normal(xs), normal(ys))
    out = run(lambda a: batching[p](Axis(0), [a, normal(ys)], [0, None], **params)[0], np.zeros((0, *xs), np.float32))[
        0
    ]
    assert out.shape == (0, 2, 4, 5, 5)


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("lc, rc", list(itertools.product((0, 1), (0, 1))))
def test_a_transposed_matmul_is_one_dot_general(lc, rc, n):
    """No transposes for the operands of a matrix product in its four forms, batched or not."""
    batch = (5,) * n
    dn = (((lc + n,), (rc + n,)), (tuple(range(n)), tuple(range(n))))
    x = normal((*batch, 3, 4) if lc else (*batch, 4, 3))
    y = normal((*batch, 6, 4) if rc else (*batch, 4, 6))
    p, params = params_of(lambda a, b: ct.dot_general(a, b, dn), x, y)
    c = normal((*batch, 3, 6))

    def to_x(c, y):
        return transpose[p](c, Linear(aval_of(x)), y, **params)[0]

    def to_y(c, x):
        return transpose[p](c, x, Linear(aval_of(y)), **params)[1]

    for f, other in ((to_x, y), (to_y, x)):
        assert [e.primitive.name for e in trace(f, [c, other]).jaxpr.eqns] == ["dot_general"]


def test_cotangents_have_the_operands_dtype():
    """bf16 operands with an f32 result; a real operand beside a complex one."""
    import ml_dtypes

    def f(a, b):
        return ct.matmul(a, b, preferred_element_type=np.float32)

    x, y = normal((3, 4), ml_dtypes.bfloat16), normal((4, 5), ml_dtypes.bfloat16)
    p, params = params_of(f, x, y)
    closed = trace(lambda c, y: transpose[p](c, Linear(aval_of(x)), y, **params)[0], [normal((3, 5)), y])
    assert [a.short() for a in closed.out_avals] == ["bf16[3,4]"]
    assert len(closed.jaxpr.eqns) == 1
    x, y = normal((3, 4)), normal((4, 5), np.complex64)
    p, params = params_of(ct.matmul, x, y)
    c = normal((3, 5), np.complex64)
    got = run(lambda c, y: transpose[p](c, Linear(aval_of(x)), y, **params)[0], c, y)[0]
    np.testing.assert_allclose(got, jax.vjp(lambda a: a @ y, x)[1](c)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype, result", [("bfloat16", "float32"), ("float16", "float32"), ("float16", "bfloat16")])
def test_cotangents_of_convolutions_with_results_of_another_dtype(dtype, result):
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-3, 4, s).astype(np.float32) for s in ((2, 5, 5, 4), (3, 3, 2, 4)))

    def gradient(lib):
        def f(x, w):
            out = lib.lax.conv_general_dilated(
                x, w, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=2,
                preferred_element_type=lib.numpy.dtype(result),
            )  # fmt: skip
            return (out**2).sum()

        return lib.grad(f, (0, 1))(*(lib.numpy.asarray(v).astype(dtype) for v in (x, w)))

    for got, want in zip(gradient(quire), gradient(jax)):
        assert str(got.dtype) == str(want.dtype) == dtype
        np.testing.assert_allclose(np.asarray(got, np.float32), np.asarray(want, np.float32), rtol=1e-2)


def test_an_empty_convolution_has_zero_cotangents():
    f, x, k = (lambda a, b: ct.conv_general_dilated(a, b, (1,), "VALID")), normal((2, 3, 2)), normal((4, 3, 3))
    p, params = params_of(f, x, k)
    out = transpose[p](np.zeros((2, 4, 0), np.float32), Linear(aval_of(x)), k, **params)
    assert isinstance(out[0], Zero) and out[0].aval == ShapedArray((2, 3, 2), np.dtype(np.float32))
