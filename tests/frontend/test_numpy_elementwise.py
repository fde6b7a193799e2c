"""Elementwise functions of quire.numpy against jax.numpy over dtypes and edge values."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quire
import quire.numpy as qnp

from .numpy_cases import DTYPES, call, check, check_calls, run, same, values

UNARY = """
abs absolute acos acosh angle arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh bitwise_count bitwise_invert
bitwise_not cbrt ceil conj conjugate cos cosh deg2rad degrees exp exp2 expm1 fabs floor frexp imag invert iscomplex isfinite
isinf isnan isneginf isposinf isreal log log10 log1p log2 logical_not modf nan_to_num negative positive rad2deg radians real
reciprocal rint round sign signbit sin sinc sinh sqrt square tan tanh trunc
""".split()
BINARY = """
add arctan2 atan2 bitwise_and bitwise_or bitwise_xor copysign divide divmod equal float_power floor_divide fmax fmin fmod
greater greater_equal heaviside hypot left_shift less less_equal logaddexp logaddexp2 logical_and logical_or logical_xor
maximum minimum mod multiply nextafter not_equal pow power remainder right_shift subtract true_divide
""".split()

# Where JAX's own result is a matter of its algorithm, or undefined.
SKIP_UNARY = {
    ("round", "bool"): "JAX has an error of its own making",
    ("exp2", "bfloat16"): "JAX is off by 5 percent at 20",
    **{("modf", d): "JAX gives NaN for infinities, NumPy 0" for d in ("float16", "bfloat16", "float32")},
}


SKIP_BINARY = {
    ("fmod", "bool"): "JAX takes True for fmod(True, False), but 0 for integers",
    **{(n, "complex64"): "0 to a complex power" for n in ("pow", "power", "float_power")},
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_unary(dtype):
    check_calls([call(name, values(dtype)) for name in UNARY if (name, dtype) not in SKIP_UNARY])


@pytest.mark.parametrize("dtype", DTYPES)
def test_binary(dtype):
    x = values(dtype)
    sums = ["logaddexp", "logaddexp2"] if dtype in ("float16", "bfloat16", "float32") else []
    check_calls([call(n, x[:, None], x) for n in BINARY if (n, dtype) not in SKIP_BINARY and n not in sums])
    if sums:
        # Where the sum is 1, JAX's result has the rounding of its half-precision terms on processors that have them.
        small = x[np.abs(np.nan_to_num(x.astype(np.float32), nan=99.0)) < 10]
        check_calls([call(n, small[:, None], small) for n in sums], atol=float(jnp.finfo(dtype).eps))


def promoted(name, *args):
    """The dtype and weak type of jax.numpy's result, without computing it."""

    def shape():
        out = jax.eval_shape(getattr(jnp, name), *args)
        return out.dtype, out.weak_type

    return run(shape, (), {})


def check_promotion(name, *args):
    want = promoted(name, *args)
    got = run(getattr(qnp, name), args, {})
    if isinstance(want, Exception):
        assert isinstance(got, Exception), (name, args, got, want)
    else:
        assert (got.dtype, got.weak_type) == want, (name, args, got, want)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "less", "divide", "power", "logical_and"])
def test_promotion_of_arrays(name):
    for a in DTYPES:
        for b in DTYPES:
            check_promotion(name, values(a)[:3], values(b)[:3])


SCALARS = [True, 2, -1, 2.5, 1j, np.float32(2), np.int8(3)]


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "floor_divide", "remainder", "maximum"])
def test_promotion_of_scalars(name):
    for dtype in DTYPES:
        for scalar in SCALARS:
            check_promotion(name, values(dtype)[1:4], scalar)
            check_promotion(name, scalar, values(dtype)[1:4])
    check_promotion(name, 3, 2)
    check_promotion(name, 3.0, 2)


def test_integer_powers():
    dtypes = ("int8", "int32", "uint8", "float32", "bfloat16", "complex64")
    check_calls([call("power", values(dtype), y) for dtype in dtypes for y in range(0, 6)])
    x = np.array([2, 3, -2, 0], np.int32)
    check("power", x[:, None], np.arange(6))
    with pytest.raises(TypeError, match="integers cannot be raised to the negative power -2"):
        qnp.asarray(x) ** -2


def test_frexp_ldexp_round_trip():
    x = np.array([0.0, 1.0, -3.5, 1e-40, 3e38, np.inf, np.nan, 1e-30], np.float32)
    mantissa, exponent = qnp.frexp(x)
    want = np.frexp(x)
    np.testing.assert_array_equal(mantissa, want[0])
    np.testing.assert_array_equal(np.asarray(exponent)[:5], want[1][:5])
    np.testing.assert_array_equal(qnp.ldexp(mantissa, exponent), x)
    for n in (-200, -130, -1, 0, 5, 130, 300):
        with np.errstate(over="ignore"):
            want = np.ldexp(np.float32(1.5), n)
        np.testing.assert_array_equal(qnp.ldexp(np.float32(1.5), n), want)


def test_gcd_and_lcm():
    x, y = np.array([12, -8, 0, 7]), np.array([18, 12, 0, 0])
    check("gcd", x, y)
    check("lcm", x, y)
    got = quire.jit(qnp.gcd)(x, y)
    np.testing.assert_array_equal(got, np.gcd(x, y))
    # The least integer has no magnitude in its dtype: remainders by it are negative. (JAX does not end.)
    least = np.array([-(2**31), -(2**31), 6], np.int32), np.array([6, 8, -(2**31)], np.int32)
    np.testing.assert_array_equal(quire.jit(qnp.gcd)(*least), [2, 8, 2])


@pytest.mark.parametrize("decimals", [0, 1, 3, -1])
def test_round(decimals):
    check("round", np.array([1.25, -2.345, 15.0, 0.5, 1.5], np.float32), decimals)


def test_errors_name_the_function_and_the_fix():
    x = qnp.ones(3)
    with pytest.raises(
        TypeError,
        match=r"quire.numpy.sin: requires ndarray or scalar arguments, got <class 'list'> at position 0: convert",
    ):
        qnp.sin([1.0])
    with pytest.raises(
        TypeError, match=r"quire.numpy.add: requires ndarray or scalar arguments, got <class 'str'> at position 1"
    ):
        qnp.add(1, "a")
    with pytest.raises(TypeError, match=r"quire.numpy.add: incompatible shapes for broadcasting: \(3,\), \(4,\)"):
        qnp.add(x, qnp.ones(4))
    with pytest.raises(TypeError, match=r"quire.numpy.subtract: sub: operand 0 bool\[3\] has dtype bool"):
        qnp.subtract(x > 0, x > 0)
    with pytest.raises(TypeError, match="quire.numpy.bitwise_and: and: operand"):
        qnp.bitwise_and(x, x)


def test_rank_and_dtype_promotion_options():
    with quire.config.override(numpy_rank_promotion="raise"):
        with pytest.raises(ValueError, match="numpy_rank_promotion is 'raise'"):
            qnp.ones((2, 3)) + qnp.ones(3)
        assert (qnp.ones((2, 3)) + 1).shape == (2, 3)
    with quire.config.override(numpy_rank_promotion="warn"), pytest.warns(UserWarning, match="different ranks"):
        qnp.ones((2, 3)) + qnp.ones(3)
    with quire.config.override(numpy_dtype_promotion="strict"):
        with pytest.raises(TypeError, match="no implicit promotion under numpy_dtype_promotion='strict'"):
            qnp.ones(3) + qnp.arange(3)
        assert (qnp.arange(3) * 2).dtype == np.int32


def test_operators_agree_with_jax():
    x, y = np.array([3, -5, 7], np.int32), np.array([2, 3, -4], np.int32)
    expressions = """x + y|x - y|x * y|x / y|x // y|x % y|divmod(x, y)[1]|x ** 2|2 ** abs(y)|x & y|x | y|x ^ y
    x << 2|x >> 1|~x|-x|+x|abs(x)
    x < y|x <= y|x > y|x >= y|x == y|x != y|1 + x|1 - x|2 * x|2.0 / x|7 // x|7 % x|divmod(7, x)[0]
    2 ** abs(x)|1 & x|1 | x|1 ^ x|1 << abs(x)
    x @ y|x.astype('float32') @ y|round(x / 3, 2)|x.sum()|x.mean()|x.std()|x.T|x.real|x.imag|x.reshape(3, 1)|x.reshape((1, -1))
    x.max()|x.argmin()|x.cumsum()|x.clip(0, 3)|x.dot(y)|x.var()|x.ptp()|x[None].squeeze()|x[None].swapaxes(0, 1)|x.flatten()|x.ravel()
    x.repeat(2)|x[None].transpose(1, 0)|x[None].transpose((1, 0))|x[None].mT|x.take(y, mode='clip')|x.nonzero()[0]|x.sort()|x.argsort()
    x.view('uint8')|x.all()|x.any()|x.prod()|x.conj()|(x[:, None] * y).trace()|(x[:, None] * y).diagonal()|x.searchsorted(y)
    x.round()|x.cumprod()|x.min()
    """  # fmt: skip
    texts = [t.strip() for t in re.split(r"(?<! )\||\|(?! )|\n", expressions) if t.strip()]
    # Sizes that depend on values need values.
    alone = [t for t in texts if "nonzero" in t]
    wanted = jax.jit(lambda x, y: {t: eval(t, {"x": x, "y": y}) for t in texts if t not in alone})(x, y)
    wanted |= {t: eval(t, {"x": jnp.asarray(x), "y": jnp.asarray(y)}) for t in alone}
    for text in texts:
        got = run(lambda a, b, e=text: eval(e, {"x": a, "y": b}), (qnp.asarray(x), qnp.asarray(y)), {})
        assert not same(got, wanted[text]), (text, same(got, wanted[text]))


def test_compiled_sample_agrees_with_jax():
    x, y = np.linspace(-2, 3, 8, dtype=np.float32), np.linspace(1, 4, 8, dtype=np.float32)
    n, m = np.arange(-4, 4, dtype=np.int32), np.array([1, 2, -3, 4, 5, -6, 7, 2], np.int32)

    def f(xp, x, y, n, m):
        return [
            xp.sin(x), xp.exp(x), xp.log1p(y), xp.tanh(x), xp.sqrt(y), xp.floor(x), xp.round(x), xp.sign(x), xp.abs(n),
            x + y, x // y, x % y, n // m, n % m, n**2, xp.power(m, abs(n)), x**2.5, xp.hypot(x, y), xp.logaddexp(x, y),
            xp.arctan2(x, y), xp.maximum(x, y), xp.where(x > 0, x, y), xp.clip(x, -1, 1), xp.sinc(x), xp.copysign(y, x),
            xp.isfinite(x), xp.logical_and(x, n), n & m, n << 1, n >> 1, ~n, x < y, xp.frexp(x)[0], xp.ldexp(x, m), xp.expm1(x),
        ]  # fmt: skip

    got = quire.jit(lambda *a: f(qnp, *a))(x, y, n, m)
    want = jax.jit(lambda *a: f(jnp, *a))(x, y, n, m)
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        assert not same(g, w, rtol=3e-5), (i, same(g, w, rtol=3e-5))


def test_derivatives_of_sinc_at_zero_are_those_of_its_series():
    """Where the function is defined as 1; (-1)^(k/2) pi^k / (k + 1) for even k (fuzz seed 7303188)."""
    f = quire.numpy.sinc
    for k in range(6):
        want = 0.0 if k % 2 else (-1) ** (k // 2) * np.pi**k / (k + 1)
        np.testing.assert_allclose(f(np.float32(0)), want, rtol=1e-6)
        np.testing.assert_allclose(quire.jvp(f, (np.float32(0),), (np.float32(2),))[0], want, rtol=1e-6)
        f = quire.grad(f)
