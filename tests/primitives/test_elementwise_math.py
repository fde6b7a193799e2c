"""Transcendental and special functions: compiled against the reference (SciPy in double precision) against JAX."""

from __future__ import annotations

import jax.lax as jl
import numpy as np
import pytest

from quire.ir import dtypes
from quire.ir.primitives import elementwise as ew
from quire.passes import fusion
from quire.runtime.compile_cache import compile_cache
from tests.helpers import Case, check
from tests.primitives.oracles import under_jax

UNARY = (
    "exp", "exp2", "expm1", "log", "log1p", "logistic", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "tanh", "asinh", "acosh", "atanh", "sqrt", "rsqrt", "cbrt", "erf", "erfc", "erf_inv", "lgamma", "digamma",
    "bessel_i0e", "bessel_i1e",
)  # fmt: skip
ODD = (
    "expm1", "log1p", "sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "cbrt", "sqrt", "erf", "erf_inv",
    "bessel_i1e",
)  # fmt: skip
SPECIAL = np.array([
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, np.inf, -np.inf, np.nan, 1e-3, -1e-3, 88.0, -80.0, 200.0, 1e4,
    1e-30, 1e30, -1e30, 2.5, -2.5, 3.5, 0.9999, 1.0001, 0.3, 7.7, -7.7, 88.9, -200.0, 129.0, 1e8, 1e10, 3e38, 1.5707964,
    89.0, 20.0, -20.0, -3.5,
])  # fmt: skip
# In units in the last place of the largest error seen over these points, doubled: (float32, float64).
ULPS = {
    "tanh": (8, 8), "erf": (10, 6), "erfc": (40, 16), "erf_inv": (8, 200), "bessel_i0e": (8, 16), "bessel_i1e": (20, 20),
    "cbrt": (4, 8), "pow": (2, 4),
}  # fmt: skip
# Near the roots of these the error is absolute.
ABSOLUTE = {"lgamma": (2e-6, 4e-15), "digamma": (5e-6, 4e-15)}
TINY = {np.dtype(np.float32): 1.2e-38, np.dtype(np.float64): 1e-307}  # denormal results are flushed to zero


def points(dtype):
    rng = np.random.default_rng(0)
    wide = np.exp(rng.uniform(-60, 60, 500)) * rng.choice([-1, 1], 500)
    return np.concatenate([SPECIAL, rng.uniform(-1, 1, 500), rng.uniform(-10, 10, 500), wide]).astype(dtype)


def tolerance(name, dtype):
    column = 0 if dtype == np.float32 else 1
    ulps = ULPS.get(name, (6, 6))[column]
    absolute = ABSOLUTE.get(name, (0, 0))[column]
    rtol = (ulps + (3000 if name in ABSOLUTE else 0)) * float(np.finfo(dtype).eps)
    return rtol, max(absolute, 4 * TINY[np.dtype(dtype)])


@pytest.fixture(params=["kernels", "stablehlo"])
def form(request, monkeypatch):
    """The two forms of a function: in a cluster that is a kernel, and alone, as StableHLO. Programs are compiled anew."""
    if request.param == "stablehlo":
        monkeypatch.setattr(fusion, "elementwise_clusters", lambda *_: [])
    monkeypatch.setattr(compile_cache(), "enabled", False)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_accuracy(dtype, x64, form):
    x = points(dtype)
    shuffled = np.random.default_rng(1).permutation(x)
    a, b = (v.ravel() for v in np.meshgrid(SPECIAL.astype(dtype), SPECIAL.astype(dtype)))
    a, b = np.concatenate([a, x]), np.concatenate([b, shuffled])
    cases = []
    for name in (*UNARY, "pow", "atan2"):
        rtol, atol = tolerance(name, dtype)
        args = (x,) if name in UNARY else (a, b)
        cases.append(Case(f"{name} {np.dtype(dtype)}", getattr(ew, name), args, rtol=rtol, atol=atol))
    # Next to 1 a large exponent multiplies what the logarithm has lost.
    rtol, atol = tolerance("pow", dtype)
    rng = np.random.default_rng(2)
    near = (1 + rng.uniform(-1, 1, 500) * 10.0 ** rng.uniform(-12, -1, 500)).astype(dtype)
    far = (rng.uniform(-80, 80, 500) / np.log(near.astype(np.float64), where=near != 1, out=np.ones(500))).astype(dtype)
    cases.append(Case(f"pow near 1, {np.dtype(dtype)}", ew.pow, (near, far), rtol=rtol, atol=atol))
    whole = np.clip(np.nan_to_num(b), -50, 50).astype(np.int32)
    cases.append(Case("pow of an integer", ew.pow, (a, whole), under_jax(jl.pow), rtol=max(rtol, 1e-5), atol=atol))
    check(cases)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reference_has_jax_s_special_values(dtype, x64):
    x = SPECIAL.astype(dtype)
    a, b = (v.ravel() for v in np.meshgrid(x, x))
    # JAX's exp2, sinh and lgamma are good to 1e-5 only in float32.
    rtol, atol = (3e-5, 1e-6) if dtype == np.float32 else (1e-9, 1e-12)
    cases = [Case(n, getattr(ew, n), (x,), under_jax(getattr(jl, n)), rtol=rtol, atol=atol) for n in UNARY]
    cases += [
        Case(n, getattr(ew, n), (a, b), under_jax(getattr(jl, n)), rtol=rtol, atol=atol) for n in ("pow", "atan2")
    ]
    check(cases, compiled=False)


def test_zeros_keep_their_sign(x64):
    cases = []
    for dtype in (dtypes.bfloat16, dtypes.float32, dtypes.float64):
        zeros = np.array([0.0, -0.0], dtype)
        ys, xs = np.array([0.0, -0.0, 0.0, -0.0], dtype), np.array([1.0, 1.0, 0.0, 0.0], dtype)
        cases += [Case(f"{n} {dtype}", getattr(ew, n), (zeros,), exact=True) for n in ODD]
        cases.append(Case(f"atan2 {dtype}", ew.atan2, (ys, xs), exact=True))
        odd, even = np.array(3, dtype), np.array(2, dtype)
        cases += [Case(f"pow {dtype}", ew.pow, (zeros, y), exact=True) for y in (odd, even, -odd, -even)]
    check(cases)


def test_sine_of_large_arguments():
    """Right for every float32: these are among the hardest, close to multiples of pi/2, up to the largest number."""
    x = np.array(
        [1e4, 1e6, 1e15, 3.4028235e38, 16367173.0 * 2.0**72, 2.0**31, 2.0**63, 2.0**95, 11.0, 710.0], np.float32
    )
    x = np.concatenate([x, -x, (np.arange(1, 3000) * (np.pi / 2)).astype(np.float32)])
    check([Case(n, getattr(ew, n), (x,), rtol=5e-7) for n in ("sin", "cos", "tan")])


def test_one_exponent_for_all_is_as_one_for_each():
    """NumPy computes a power of one half for all as a square root, which differs at -inf and at -0."""
    x = np.array([-np.inf, -0.0, 0.0, -2.0, 2.0, np.inf, np.nan], np.float32)
    cases = [
        Case(f"pow {y}, {np.shape(e)}", ew.pow, (x, e), under_jax(jl.pow), exact=True)
        for y in (0.5, -0.5, 2, -1, 0, 1, -2)
        for e in (np.float32(y), np.full(x.shape, y, np.float32))
    ]
    cases.append(
        Case("pow of one element", ew.pow, (x[:1], np.full(1, 0.5, np.float32)), under_jax(jl.pow), exact=True)
    )
    check(cases)


def test_half_precision_is_rounded_once(x64):
    cases = []
    rng = np.random.default_rng(0)
    for dtype in (dtypes.float16, dtypes.bfloat16):
        with np.errstate(over="ignore"):
            x = np.concatenate([SPECIAL, rng.uniform(-8, 8, 300)]).astype(dtype)
        rtol = {dtypes.float16: 1e-3, dtypes.bfloat16: 8e-3}[dtype]
        # lgamma and digamma have absolute errors of float32 next to their roots
        cases += [Case(f"{n} {dtype}", getattr(ew, n), (x,), rtol=rtol, atol=6.2e-5) for n in UNARY]
        cases += [Case(f"{n} {dtype}", getattr(ew, n), (x, rng.permutation(x)), rtol=rtol, atol=6.2e-5)
                  for n in ("pow", "atan2")]  # fmt: skip
    check(cases)


FUNCTIONS_OF_TWO = ("igamma", "igammac", "igamma_grad_a", "random_gamma_grad", "polygamma", "zeta")


def special_cases(dtype, expect):
    x = np.array([0.5, 1, 2, 3.5, 20, -1, 0, np.inf, np.nan, 200, 7.7, 1e3, 1e-3, -2.3, 0.99], dtype)
    a, b = (v.ravel() for v in np.meshgrid(x, x))
    rtol = 2e-6 if dtype == np.float32 else 2e-11
    cases = []
    for name in FUNCTIONS_OF_TWO:
        # The series cancels where P is nearly 1, up to the tail's own expansion.
        loose = max(rtol, 2e-5) if name in ("igamma_grad_a", "random_gamma_grad") else rtol
        cases.append(Case(f"{name} {np.dtype(dtype)}", getattr(ew, name), (a, b), rtol=loose, atol=1e-37))
    ends = np.array([0, 0.01, 0.3, 0.5, 0.9, 0.999, 1, 1.2, -0.1, np.nan], dtype)
    abx = tuple(v.ravel() for v in np.meshgrid(x, x, ends))
    cases.append(Case(f"betainc {np.dtype(dtype)}", ew.regularized_incomplete_beta, abx, rtol=rtol * 10, atol=1e-37))
    if expect:
        finite = np.isfinite(a) & np.isfinite(b) & (a > 0) & (b > 0) & (a < 300) & (b < 300)
        for case in cases[:3] + cases[5:6]:
            case.args = (a[finite], b[finite])
        m = np.array([0, 1, 2, 3, 0, 1, 2, 1], dtype), np.array([0.5, 1, 2, 30, -2.5, -2.5, -2.5, 7], dtype)
        cases[4].args = m
        cases = cases[:3] + cases[4:]
        for case in cases:
            name = case.name.split()[0]
            case.expect = under_jax(getattr(jl, name))
            case.rtol, case.atol = 1e-6, 1e-12
    return cases


@pytest.mark.parametrize(
    ("form", "dtype"), [("kernels", np.float32), ("kernels", np.float64), ("stablehlo", np.float32)], indirect=["form"]
)
def test_incomplete_gamma_and_beta_zeta_polygamma(form, dtype, x64):
    check(special_cases(dtype, expect=False))


def test_reference_of_special_functions_is_jax_s(x64):
    check(special_cases(np.float64, expect=True), compiled=False)


def test_derivative_of_a_gamma_sample_is_that_of_the_quantile(x64):
    """random_gamma_grad against differences of the inverse of igamma."""
    import scipy.special as sp

    a = np.array([0.3, 2.0, 5.0, 20.0, 50.0, 0.5, 3.0])
    x = np.array([0.1, 3.0, 1.0, 0.5, 20.0, 0.01, 12.0])
    h = 1e-5 * a
    p, q = sp.gammainc(a, x), sp.gammaincc(a, x)
    inverse = [np.where(p < 0.5, sp.gammaincinv(a + s, p), sp.gammainccinv(a + s, q)) for s in (h, -h)]
    check(
        [Case("sample", ew.random_gamma_grad, (a, x), lambda a, x: (inverse[0] - inverse[1]) / (2 * h), rtol=1e-6)],
        compiled=False,
    )


def test_functions_of_denormal_numbers_are_near_those_of_zero(x64, form):
    """They are flushed, or kept: never NaN."""
    cases = []
    for dtype in (np.float32, np.float64):
        tiny = float(np.finfo(dtype).tiny)
        x = np.array([tiny / 2, tiny / 8, tiny / 1e5, tiny, 2 * tiny], dtype)
        for name in ("cbrt", "sqrt", "asinh", "atan", "expm1", "log1p", "tanh", "erf"):
            args = (x,) if name == "sqrt" else (np.concatenate([x, -x]),)
            cases.append(Case(f"{name} {dtype.__name__}", getattr(ew, name), args, rtol=1e-5, atol=2 * tiny ** (1 / 3)))
    check(cases)


def test_squares_of_complex_numbers_do_not_overflow_before_their_result(form):
    parts = np.array([0.0, -0.0, 1.0, -2.5, 1e38, 3e38, -3e38, 1e-30, np.inf, -np.inf, np.nan], np.float32)
    z = np.stack(np.meshgrid(parts, parts), -1).reshape(-1, 2).view(np.complex64)[:, 0]
    z = np.concatenate([z, np.random.default_rng(0).normal(size=(4000, 2)).astype(np.float32).view(np.complex64)[:, 0]])
    check([Case("square", ew.square, (z,), under_jax(jl.square), exact=True)])
