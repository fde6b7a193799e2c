"""Functions of complex operands: compiled against the reference (NumPy in double precision), and against JAX."""

from __future__ import annotations

import jax
import jax.lax as jl
import numpy as np
import pytest

import quire.numpy
from quire.backends import reference
from quire.backends.stablehlo import lower_module
from quire.backends.targets import get_target
from quire.ir.primitives import elementwise as ew
from tests.helpers import run_compiled, trace
from tests.primitives.oracles import under_jax

UNARY = (
    "neg", "sign", "abs", "square", "exp", "exp2", "expm1", "log", "log1p", "logistic", "sin", "cos", "tan", "asin",
    "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sqrt", "rsqrt", "conj", "real", "imag",
)  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "max", "min", "pow", "eq", "ne")
# Of one rounding each; pow and exp2 multiply an angle first, which loses digits in proportion to it.
EPS = {"pow": 200.0, "exp2": 200.0, "expm1": 8.0, "logistic": 8.0, "div": 8.0}


def plane(dtype, seed=0):
    """Points of the plane within a distance of 7, and the axes and the branch cuts with both signs of zero."""
    rng = np.random.default_rng(seed)
    z = np.empty(600, dtype)
    z.real, z.imag = rng.uniform(-5, 5, 600), rng.uniform(-5, 5, 600)
    ends = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 1e-3, 10.0)
    cuts = np.array([complex(a, b) for a in ends for b in ends], dtype)
    cuts.real, cuts.imag = np.repeat(ends, len(ends)), np.tile(ends, len(ends))  # complex(-0.0, 0.0) keeps its signs
    return np.concatenate([cuts, z])


def relative_error(got, want):
    """|got - want| / |want|, 0 where both are not finite."""
    wide = np.complex128
    g, w = np.asarray(got).astype(wide), np.asarray(want).astype(wide)
    finite = np.isfinite(g) & np.isfinite(w)
    with np.errstate(all="ignore"):
        error = np.abs(g - w) / np.maximum(np.abs(w), 1e-30)
    return np.where(finite, error, 0.0)


def compiled_and_referenced(dtype, unary, binary, x, y):
    def f(x, y):
        return [getattr(ew, n)(x) for n in unary] + [getattr(ew, n)(x, y) for n in binary] + [ew.integer_pow(x, -3)]

    closed = trace(f, (x, y))
    return run_compiled(closed, (x, y)), reference.eval_jaxpr(closed, x, y)


@pytest.mark.parametrize(
    ("dtype", "unary", "binary"),
    [
        (np.complex64, UNARY, BINARY),
        (
            np.complex128,
            ("abs", "exp", "log", "sin", "tanh", "asin", "acosh", "atan", "sqrt"),
            ("mul", "div", "pow", "eq"),
        ),
    ],
)
def test_values_and_branch_cuts(dtype, unary, binary, x64):
    x = plane(dtype)
    y = np.random.default_rng(1).permutation(x)
    got, want = compiled_and_referenced(dtype, unary, binary, x, y)
    eps = float(np.finfo(dtype).eps)
    failures = []
    for name, g, w in zip((*unary, *binary, "integer_pow"), got, want):
        assert g.dtype == w.dtype
        if g.dtype == np.bool_:
            assert np.array_equal(g, w), name
            continue
        # A zero on the wrong side of a branch cut changes the sign of a part, an error as large as the value.
        error = relative_error(g, w) / eps
        i = int(error.argmax())
        if error[i] > EPS.get(name, 4.0):
            failures.append(f"{name}: {error[i]:.3g} eps at {x[i]}, {y[i]}: {g[i]} instead of {w[i]}")
        if name not in ("pow", "div", "atan", "atanh", "log", "rsqrt", "sign", "integer_pow", "exp2", "tan"):
            different = np.isfinite(g) != np.isfinite(w)
            if different.any():
                failures.append(f"{name}: {g[different][:3]} instead of {w[different][:3]} at {x[different][:3]}")
    assert not failures, "\n".join(failures)


def test_infinities_and_nan():
    """The rows of C99's annex G that programs meet."""
    inf, nan = np.inf, np.nan
    table = [
        ("abs", complex(inf, nan), inf), ("abs", complex(nan, 0), nan), ("abs", complex(3e38, 0), np.float32(3e38)),
        ("exp", complex(-inf, nan), 0), ("exp", complex(inf, 0), complex(inf, 0)), ("exp", complex(0, inf), complex(nan, nan)),
        ("log", complex(0, 0), complex(-inf, 0)), ("log", complex(-inf, inf), complex(inf, np.float32(0.75 * np.pi))),
        ("sqrt", complex(nan, inf), complex(inf, inf)), ("sqrt", complex(-inf, 1), complex(0, inf)),
        ("tanh", complex(inf, 1), complex(1, 0)), ("tanh", complex(100, 1), complex(1, 0)),
        ("sinh", complex(inf, 0), complex(inf, 0)), ("cosh", complex(0, 0), complex(1, 0)),
        ("atanh", complex(inf, 0), complex(0, np.float32(np.pi / 2))), ("acos", complex(0, -inf), complex(np.float32(np.pi / 2), inf)),
    ]  # fmt: skip
    xs = [np.array(z, np.complex64) for _, z, _ in table]
    closed = trace(lambda *zs: [getattr(ew, n)(z) for (n, _, _), z in zip(table, zs)], xs)
    for run in (run_compiled, lambda c, a: reference.eval_jaxpr(c, *a)):
        for (name, z, want), got in zip(table, run(closed, xs), strict=True):
            g, w = complex(got), complex(want)
            assert np.allclose([g.real, g.imag], [w.real, w.imag], equal_nan=True, rtol=1e-6), (name, z, g, w)


def test_division_by_zero_and_by_infinity():
    x = np.array([1 + 1j, complex(-1, 2), 0, complex(np.inf, 1), 1 + 1j], np.complex64)
    y = np.array([0, complex(-0.0, 0.0), 0, 1 + 1j, complex(np.inf, 0)], np.complex64)
    closed = trace(ew.div, (x, y))
    (got,) = run_compiled(closed, (x, y))
    want = under_jax(jl.div)(x, y)
    assert np.array_equal(np.isinf(got), np.isinf(want)) and np.isnan(got[2]) and got[4] == 0
    assert got[0] == complex(np.inf, np.inf)


def test_complex_maximum_is_lexicographic():
    x = np.array([1 + 2j, 1 + 1j, 2 - 5j, complex(np.nan, 1)], np.complex64)
    y = np.array([1 + 1j, 1 + 2j, 1 + 9j, 1 + 1j], np.complex64)
    closed = trace(lambda x, y: [ew.max(x, y), ew.min(x, y)], (x, y))
    for got, f in zip(run_compiled(closed, (x, y)), (jl.max, jl.min)):
        np.testing.assert_array_equal(got, under_jax(f)(x, y))


def test_power_of_zero_one_and_infinity():
    """As JAX: 0**w is 0 for real w > 0 and NaN for other w but 0, and 1 to any power is 1."""
    nan = complex(np.nan, np.nan)
    cases = {
        (0, 2.5): 0, (0, 2.5 - 3j): nan, (0, -1): nan, (0, 1j): nan, (0, 0): 1, (complex(-0.0, 0), 2): 0,
        (1, np.inf): 1, (1, np.nan): 1, (np.inf, 2.5): np.inf, (np.inf, -1): 0, (np.inf, 0): 1,
    }  # fmt: skip
    x, y = (np.array(column, np.complex64) for column in zip(*cases))
    want = np.array(list(cases.values()), np.complex64)
    for got in (quire.numpy.power(x, y), quire.compile(quire.numpy.power)(x, y)):
        np.testing.assert_array_equal(np.asarray(got), want)


def test_large_arrays_take_a_kernel_and_give_the_same():
    """The formulas of small arrays, which the tests above check, in vectors: branch cuts, infinities, NaN, a tail."""
    inf, nan = np.inf, np.nan
    ends = np.array(
        [complex(a, b) for a in (inf, -inf, nan, 3e38, 1e-30) for b in (inf, -inf, nan, 0, 2)], np.complex64
    )
    small = np.concatenate([plane(np.complex64), ends])
    other, scalar = np.random.default_rng(2).permutation(small), np.complex64(1.5 - 0.5j)
    unary = ("abs", "exp", "sqrt", "asin")

    def f(x, y, c):
        out = [getattr(ew, n)(x) for n in unary]
        return [*out, ew.div(x, y), ew.div(x, c), ew.pow(x, c)]

    want = run_compiled(trace(f, (small, other, scalar)), (small, other, scalar))
    times = 6
    large = [np.tile(v, times)[1:] for v in (small, other)]
    closed = trace(f, (*large, scalar))
    text = lower_module(closed, get_target("cpu"), name="f").text()
    assert text.count("1 elementwise equations") == len(want)
    for name, g, w in zip((*unary, "div", "div by c", "pow"), run_compiled(closed, (*large, scalar)), want):
        w = np.tile(w, times)[1:]
        assert (
            g.dtype == w.dtype and np.array_equal(np.isnan(g), np.isnan(w)) and np.array_equal(np.isinf(g), np.isinf(w))
        ), name
        # pow multiplies an angle, whose last digit depends on which products are fused with sums
        assert relative_error(g, w).max() < (2e-5 if name == "pow" else 5e-7), name
    assert "1 elementwise equations" not in lower_module(trace(ew.abs, (small,)), get_target("cpu"), name="f").text()


def test_quotients_at_the_edges_of_the_plane_are_the_same_everywhere():
    """Zeros, infinities and NaN in either part: C99's annex G where NumPy has NaN; the reference, compiled, and JAX."""
    edges = (-np.inf, -1.5, -0.0, 0.0, 2.0, np.inf, np.nan)
    z = np.array([complex(a, b) for a in edges for b in edges], np.complex64)
    x, y = (v.ravel() for v in np.meshgrid(z, z))
    calls = {
        "div": (x, y), "reciprocal": (z,), "sign": (z,), "rsqrt": (z,), "integer_pow": (z, 3), "expm1": (z,),
    }  # fmt: skip

    def same(a, b):
        parts = ((np.asarray(a).real, np.asarray(b).real), (np.asarray(a).imag, np.asarray(b).imag))
        return np.all([np.isclose(p, q, rtol=1e-6, atol=1e-6, equal_nan=True) for p, q in parts], axis=0)

    for name, operands in calls.items():
        static = (1,) if name == "integer_pow" else ()
        f = getattr(quire.lax, name)
        eager = np.asarray(f(*map(quire.numpy.asarray, operands[:1]), *operands[1:]))
        compiled = np.asarray(quire.jit(f, static_argnums=static)(*operands))
        bad = ~same(eager, compiled)
        assert not bad.any(), (name, bad.nonzero()[0][:3], eager[bad][:3], compiled[bad][:3])
        peer = np.asarray(jax.jit(getattr(jl, name), static_argnums=static)(*operands))
        # JAX: NaN in a part for the eight quotients of (inf, inf) that are infinite by annex G too, and for expm1 of -inf.
        other = ~same(compiled, peer)
        assert np.isnan(peer[other]).all() and other.sum() <= 8, name
