"""Arrays of float8, float4, int4 and int2: kept, moved and converted as by JAX and ml_dtypes, and computed with by nobody."""

from __future__ import annotations

import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.experimental import io_callback
from quire.ir import dtypes

F8 = qnp.float8_e4m3fn
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def edge_values(d: Any) -> np.ndarray[Any, Any]:
    """Every number of the format, the middles between neighbours and what is next to them, and random numbers of all sizes."""
    rng = np.random.RandomState(0)
    codes = np.arange(16 if d == dtypes.float4_e2m1fn else 256, dtype=np.uint8)
    values = codes.view(d).astype(np.float32)
    finite = np.sort(values[np.isfinite(values)])
    middles = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    around = [np.nextafter(middles, np.float32(s * np.inf)) for s in (1, -1)]
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e38, -1e38, 2.0**-126, 2.0**-149], np.float32)
    random = (rng.randn(2000) * np.exp(rng.randn(2000) * 6)).astype(np.float32)
    return np.concatenate([values, middles, *around, special, random])


@pytest.mark.parametrize("d", dtypes.NARROW_FLOATS, ids=str)
def test_conversions_are_those_of_ml_dtypes(d):
    xs = edge_values(d)
    with np.errstate(all="ignore"):
        want = xs.astype(d)
    for convert in (quire.jit(lambda x: x.astype(d)), lambda x: x.astype(d)):
        got = convert(qnp.asarray(xs))
        assert got.dtype == d
        known = ~np.isnan(xs)  # the sign of a NaN is nobody's concern
        np.testing.assert_array_equal(np.asarray(got).view(np.uint8)[known], want.view(np.uint8)[known])
    codes = np.arange(16 if d == dtypes.float4_e2m1fn else 256, dtype=np.uint8).view(d)
    for convert in (quire.jit(lambda x: x.astype("float32")), lambda x: x.astype("float32")):
        np.testing.assert_array_equal(convert(qnp.asarray(codes)), codes.astype(np.float32))
    for other in ("float16", "bfloat16", "int32", "bool", "complex64"):
        x = np.array([1, 2, 4], np.float32)
        back = quire.jit(lambda x: x.astype(other).astype(d).astype(other))(x)  # noqa: B023
        np.testing.assert_array_equal(np.asarray(back), np.asarray(qnp.asarray(x).astype(d).astype(other)))


@pytest.mark.parametrize("d", dtypes.NARROW_INTEGERS, ids=str)
def test_integers_keep_their_low_bits(d):
    x = np.arange(-300, 300, dtype=np.int32)
    want = x.astype(d).astype(np.int32)
    for run in (quire.jit, lambda f: f):
        np.testing.assert_array_equal(run(lambda x: x.astype(d).astype("int32"))(qnp.asarray(x)), want)
        np.testing.assert_array_equal(run(lambda x: x.astype("float32"))(qnp.asarray(x.astype(d))), want)


MOVED = {
    "indexing": lambda y: y[1], "transpose": lambda y: y.T, "reshape": lambda y: qnp.reshape(y, (3, 2)),
    "where": lambda y: qnp.where(X > 2, y, y[::-1]), "with a number": lambda y: qnp.where(X > 2, y, 2),
    "stack": lambda y: qnp.stack([y, y])[1, 1], "take": lambda y: qnp.take(y, np.array([0, 5]), axis=1, mode="clip"),
    "outside": lambda y: qnp.take(y, np.array([0, 5]), axis=1, mode="fill"), "set": lambda y: y.at[0, 0].set(2),
    "pad": lambda y: qnp.pad(y, 1), "roll": lambda y: qnp.roll(y, 1), "tril": lambda y: qnp.tril(y),
    "repeat": lambda y: qnp.repeat(y, 2, axis=0), "like": lambda y: qnp.full_like(y, 1.5),
    "scan": lambda y: lax.scan(lambda c, v: (v, c), y[0], y)[1], "cond": lambda y: lax.cond(True, lambda v: v, lambda v: v[::-1], y),
    "nested": lambda y: quire.jit(lambda v: v[::-1])(y), "vmap": lambda y: quire.vmap(lambda v: v[::-1])(y),
    "rounded": lambda y: (y.astype("float32") / 3).astype(y.dtype), "bits": lambda y: lax.bitcast_convert_type(y, "uint8"),
    "from bits": lambda y: y.view("uint8").view(y.dtype), "constant": lambda y: qnp.array([1.0, 2.0], y.dtype),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVED)
def test_moved_as_by_jax(name):
    jax = pytest.importorskip("jax")
    if name in ("bits", "from bits"):
        kinds = [F8, qnp.float8_e5m2, qnp.float8_e4m3fnuz]
    else:
        kinds = [F8, qnp.float8_e5m2, qnp.float8_e4m3fnuz, qnp.int4]
    for kind in kinds:
        y = qnp.asarray(X).astype(kind)
        eager, compiled = MOVED[name](y), quire.jit(MOVED[name])(y)
        assert eager.dtype == compiled.dtype
        as_words = [np.asarray(r).view(np.uint8) for r in (eager, compiled)]
        np.testing.assert_array_equal(*as_words)
    if name == "outside":
        theirs = jax.numpy.take(jax.numpy.asarray(X).astype(F8.dtype), np.array([0, 5]), axis=1, mode="fill")
        got = MOVED[name](qnp.asarray(X).astype(F8)).astype("float32")
        np.testing.assert_array_equal(got, np.asarray(theirs).astype(np.float32))


def test_at_rest():
    y = qnp.asarray(X).astype(F8)
    assert repr(y[1]) == "Array([3, 4, 5], dtype=float8_e4m3fn)" and y.nbytes == 6 and float(y[1, 1]) == 4.0
    assert y.tolist() == X.tolist() and pickle.loads(pickle.dumps(y)).dtype == F8
    np.testing.assert_array_equal(np.asarray(quire.device_put(np.asarray(y))), np.asarray(y))
    held = quire.jit(lambda: y[0])()
    assert held.dtype == F8 and np.asarray(held).tolist() == [0, 1, 2]
    assert quire.eval_shape(lambda x: x.astype(F8), X).dtype == F8
    np.testing.assert_array_equal(
        quire.jit(lambda v: v[::-1], donate_argnums=0)(qnp.array(y)).astype("float32"), X[::-1]
    )


def test_promotion():
    assert qnp.promote_types(F8, "int32") == F8 and qnp.result_type(qnp.ones(1, F8), 1.0) == F8
    assert qnp.promote_types("int4", int) == qnp.int4 and qnp.promote_types("int4", bool) == qnp.int4
    for a, b in ((F8, "float32"), (F8, qnp.float8_e5m2), ("int4", "int8"), ("int4", "uint4"), (F8, "complex64")):
        with pytest.raises(quire.dtypes.TypePromotionError, match="do not support implicit promotion"):
            qnp.promote_types(a, b)


COMPUTED = {
    "add": lambda y: y + y, "compare": lambda y: y < y, "equal": lambda y: y == y, "sin": qnp.sin, "sum": qnp.sum, "max": qnp.max,
    "dot": lambda y: y @ y.T, "sort": qnp.sort, "argmax": qnp.argmax, "isnan": qnp.isnan, "cumsum": qnp.cumsum,
    "var": qnp.var, "scatter": lambda y: y.at[0].add(1), "abs": qnp.abs, "psum": lambda y: quire.vmap(lambda v: lax.psum(v, "i"), axis_name="i")(y),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPUTED)
def test_computing_is_refused(name):
    for kind in (F8, qnp.float8_e5m2):
        y = qnp.asarray(X).astype(kind)
        eager = () if name == "scatter" else (COMPUTED[name],)  # eagerly NumPy adds, which rounds as JAX does
        for f in (*eager, quire.jit(COMPUTED[name])):
            with pytest.raises(TypeError, match="float8_e"):
                f(y)


def test_bits_of_an_element():
    bits = [quire.dtypes.itemsize_bits(d) for d in (F8, "float4_e2m1fn", "int4", "uint2", "int8", "float64")]
    assert bits == [8, 4, 4, 2, 8, 64]
    with pytest.raises(ValueError, match="dtype cannot be None"):
        quire.dtypes.itemsize_bits(None)


def test_derivatives_are_refused():
    with pytest.raises(NotImplementedError, match="derivatives do not pass through numbers of dtype float8_e4m3fn"):
        quire.grad(lambda x: x.astype(F8).astype("float32").sum())(X)
    still = quire.grad(lambda x: (lax.stop_gradient(x).astype(F8).astype("float32") * x).sum())(X)
    np.testing.assert_array_equal(still, X)


@pytest.mark.parametrize("name", ["int2", "uint2", "int4", "uint4"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_what_is_beyond_the_range_of_an_integer(name, dtype):
    """The end of the range of a float, as for wider integers; the low bits of an integer."""
    jax = pytest.importorskip("jax")
    x = np.array([8, -9, 100, -3, -1, 16, 300, 7, 0, 2], np.float32)
    x = np.append(x, [7.9, -0.9, np.inf, -np.inf, np.nan]) if dtype != "int32" else x
    x = x.astype(dtype)
    want = np.asarray(jax.numpy.asarray(x).astype(name)).astype(int)
    eager = qnp.asarray(x).astype(name)
    for got in (eager, quire.jit(lambda v: v.astype(name))(x), quire.jit(lambda v: v.astype(name).astype("int8"))(x)):
        np.testing.assert_array_equal(np.asarray(got).astype(int), want)


@pytest.mark.parametrize("name", ["int2", "uint2", "int4", "uint4", "float4_e2m1fn", "float8_e4m3fn", "float8_e5m2"])
def test_callbacks_are_given_and_give_narrow_numbers(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    x = np.asarray([0, 1, -1 if name[0] in "if" else 1, -2 if name[0] in "if" else 2], np.float32).astype(dtype)
    seen = []

    def host(v):
        seen.append(v)
        return v[::-1].copy()

    def f(v):
        like = quire.ShapeDtypeStruct(v.shape, v.dtype)
        quire.debug.callback(seen.append, v)
        none = quire.pure_callback(lambda: x, quire.ShapeDtypeStruct(x.shape, x.dtype))
        return (
            quire.pure_callback(host, like, v, vmap_method="sequential"),
            io_callback(host, like, v).astype("float32"),
            none,
        )

    for g, rows in ((f, x), (quire.vmap(lambda v: f(v)[0]), np.stack([x, x[::-1]]))):
        out = quire.jit(g)(rows)
        quire.effects_barrier()
        first = out if g is not f else out[0]
        assert np.asarray(first).dtype == dtype
        np.testing.assert_array_equal(np.asarray(first).astype("float32"), rows[..., ::-1].astype("float32"))
        if g is f:
            np.testing.assert_array_equal(out[1], x[::-1].astype("float32"))
            np.testing.assert_array_equal(np.asarray(out[2]).astype("float32"), x.astype("float32"))
    assert len(seen) >= 6 and all(np.asarray(v).dtype == dtype for v in seen)
