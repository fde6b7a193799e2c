"""The dtypes of results of quire.numpy are jax.numpy's, for operands of every dtype, with 64-bit dtypes and without."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.ir.config import config

from .jax_oracle import check

DTYPES = "bool int8 int16 int32 uint8 uint16 uint32 float16 bfloat16 float32 complex64".split()
WIDE = "int64 uint64 float64 complex128".split()

# Of a vector x and a square matrix m, under either library's numpy.
CALLS: dict[str, Any] = {
    "reductions": lambda np, x, m: [
        np.mean(x), np.std(x), np.var(m, axis=0), np.sum(x), np.prod(x), np.average(x), np.nanmean(m, axis=1),
        x.mean(), x.std(), np.mean(x, where=x != 0), np.cumsum(x), np.cumprod(x), np.linalg.norm(x), np.trace(m),
    ],
    "functions": lambda np, x, m: [
        np.exp(x), np.sqrt(x), np.sin(x), x / x, x / 2, x + 1.0, np.arctan(x), np.hypot(abs(x), 2.0), np.exp2(x),
        np.square(x), np.where(x != 0, x, 1), np.add(x, x), np.true_divide(x, 3), np.rint(x), np.angle(x),
    ],
    "positions": lambda np, x, m: [
        np.argmax(x), np.argsort(x), np.searchsorted(x, x), np.flatnonzero(x, size=3), np.nonzero(m, size=2),
        np.argwhere(x, size=2), np.count_nonzero(x), np.unique(x, size=2, return_inverse=True, return_counts=True),
    ],
    "statistics": lambda np, x, m: [np.cov(m), np.corrcoef(m), np.gradient(x), np.convolve(x, x), np.trapezoid(x)],
}  # fmt: skip
ORDERED: dict[str, Any] = {
    "quantiles": lambda np, x, m: [
        np.median(x), np.percentile(x, 30), np.percentile(x, 30.0), np.percentile(x, np.float32(30)),
        np.quantile(x, np.array([0.1, 0.5])), np.nanpercentile(m, 20.0, axis=0), np.quantile(x, 0.3, method="lower"),
    ],
    "bins": lambda np, x, m: [np.digitize(x, x), np.digitize(x, x[:0]), np.histogram(x, 3), np.linspace(x, x, 3)],
}  # fmt: skip

# Functions of two arrays by name: of dtypes that promote in each way there is, and of an array and a Python number.
PAIRS = (
    "bitwise_or copysign corrcoef cov divide dot equal float_power floor_divide gcd heaviside histogram histogram_bin_edges "
    "hypot isclose kron lcm ldexp left_shift logaddexp logaddexp2 polyval power searchsorted union1d where"
).split()
# Of two operands of which at least one is a number: a bool among Python numbers and among arrays of weak type.
SCALARS = (True, 2, np.uint32(2), np.int64(3), np.bool_(True))
OF_SCALARS = (
    "add subtract multiply divide floor_divide remainder fmod power maximum minimum fmax bitwise_and left_shift right_shift "
    "divmod equal less where"
).split()
NUMBERS = "add arctan2 divide gcd heaviside hypot logaddexp logaddexp2 maximum power".split()
SOME = "bool int64 bfloat16 float32 float64".split()


def outcome(module: Any, numpy: Any, f: Any, *operands: str) -> Any:
    """The dtypes and shapes of the results, and whether they are weak (bools apart); "refused" where there are none."""
    try:
        out = module.eval_shape(
            lambda *xs: f(numpy, *xs), *(module.ShapeDtypeStruct((4,), jnp.dtype(d)) for d in operands)
        )
    except (TypeError, ValueError, NotImplementedError):
        return "refused"
    return [(str(v.dtype), v.shape, v.weak_type and v.dtype != bool) for v in jax.tree_util.tree_leaves(out)]


def test_dtypes_of_functions_of_two_arrays_are_those_of_jax():
    calls: list[tuple[str, Any, tuple[str, ...]]] = []
    for name in PAIRS:
        f = lambda np, x, y, name=name: getattr(np, name)(*((x != 0, x) if name == "where" else (x,)), y)  # noqa: E731
        calls += [(f"{name} of {a}, {b}", f, (a, b)) for a in SOME for b in SOME]
    f = lambda np, x, y: [np.interp(x, x, y), np.interp(x, np.arange(3.0), y[:3], left=2.5)]  # noqa: E731
    calls += [
        (f"interp of {a}, {b}", f, (a, b)) for a in SOME for b in SOME if a != "bfloat16"
    ]  # which JAX's spacing refuses
    for name, n in product(NUMBERS, (2, 2.5)):
        calls += [
            (
                f"{name} of {d} and {n}",
                lambda np, x, name=name, n=n: [getattr(np, name)(*p) for p in ((x, n), (n, x))],
                (d,),
            )
            for d in SOME
        ]
    for f in (
        lambda np, x: [np.cumulative_sum(x), np.cumulative_prod(x)],
        lambda np, x: [np.argsort(x), np.lexsort((x, x)), np.unique_counts(x, size=3)],
        lambda np, x: [] if x.dtype == bool else [np.argpartition(x, 2), np.partition(x, 2)],
        lambda np, x: [np.polyval(x, 2), np.polyval(x, 2.5)],
        lambda np, x: [np.linalg.matrix_rank(abs(x).astype("f")), np.linalg.lstsq(*[abs(np.stack([x, x])).astype("f")] * 2)[2]],
        lambda np, x: [np.var(x, dtype="float32")],
        lambda np, x: [np.std(x, dtype="float32")],
    ):  # fmt: skip
        calls += [(f"{f.__code__.co_firstlineno} of {d}", f, (d,)) for d in [*DTYPES, *WIDE]]
    with config.override(enable_x64=True), jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of complex numbers converted to real ones
        both = [(c, outcome(quire, qnp, f, *d), outcome(jax, jnp, f, *d)) for c, f, d in calls]
    # What NumPy does with bools, which JAX refuses.
    lenient = ("kron of bool, bool",)
    wrong = [f"{c}: {g} instead of {w}" for c, g, w in both if g != w and not (w == "refused" and c in lenient)]
    assert not wrong, "\n".join(wrong)


def facts_of_scalars(module: Any, np: Any) -> list[tuple[str, Any]]:
    """Types of functions of a number and an array of weak type, an array of int8 or a number, in both orders."""
    found: list[tuple[str, Any]] = []
    for name, n, other in product(OF_SCALARS, SCALARS, ("weak", "int8", "number")):
        x = {"weak": np.asarray(3), "int8": np.array([3, 1], "int8"), "number": 3}[other]
        f = np.where if name == "where" else getattr(np, name)
        for order, operands in (("first", (n, x)), ("second", (x, n))):
            call = lambda f=f, o=((True, *operands) if name == "where" else operands): f(*o)  # noqa: E731
            try:
                out = jax.tree_util.tree_leaves(module.eval_shape(call))
                facts: Any = [(str(v.dtype), v.weak_type and v.dtype != bool) for v in out]
            except (TypeError, ValueError):
                facts = "refused"
            found.append((f"{name} of {n!r} ({order}) and {other}", facts))
    return found


def test_bools_and_numpy_numbers_among_numbers_are_what_jax_makes_of_them():
    """A Python bool among integers of weak type is 1 (it was refused); NumPy's integers are exponents as Python's are."""
    both = zip(facts_of_scalars(quire, qnp), facts_of_scalars(jax, jnp), strict=True)
    wrong = [f"{name}: {got} instead of {want}" for (name, got), (_, want) in both if got != want]
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong)
    assert qnp.where(True, 2, True) + True == 3 and qnp.array([-2], "int8") ** np.uint32(2) == 4


def dtypes_of(module: Any, numpy: Any, f: Any, dtype: str) -> Any:
    avals = [module.ShapeDtypeStruct(s, jnp.dtype(dtype)) for s in ((4,), (3, 3))]
    out = module.eval_shape(lambda x, m: f(numpy, x, m), *avals)
    return [(str(v.dtype), v.shape) for v in jax.tree_util.tree_leaves(out)]


@pytest.mark.parametrize("x64", [False, True], ids=["32", "64"])
@pytest.mark.parametrize("name", [*CALLS, *ORDERED])
def test_dtypes_are_those_of_jax(name, x64):
    wrong: list[str] = []
    f = CALLS.get(name) or ORDERED[name]
    with config.override(enable_x64=x64), jax.enable_x64(x64):
        for dtype in [*DTYPES, *(WIDE if x64 else [])]:
            if name in ORDERED and (dtype.startswith("complex") or dtype == "bool"):
                continue
            got, want = (dtypes_of(*modules, f, dtype) for modules in ((quire, qnp), (jax, jnp)))
            wrong += [f"{dtype}[{i}]: {g} instead of {w}" for i, (g, w) in enumerate(zip(got, want)) if g != w]
    assert not wrong, "\n".join(wrong)


X = np.arange(7, dtype=np.float32)


def test_tangents_of_integers_leave_compiled_functions():
    def f(q: Any, np: Any, lax: Any) -> Any:
        def both(x: Any) -> Any:
            return np.argmax(x), x * 2, x > 1

        def derived(x: Any) -> Any:
            mapped = q.vmap(lambda y: q.jvp(both, (y,), (y,)))(x)
            integers = q.grad(lambda i, x: np.sum(x * i), allow_int=True)(np.arange(7), x)
            return [q.jvp(both, (x,), (x,)), q.linearize(both, x)[1](x), mapped, integers]

        return q.jit(derived)(X)

    check(f)


def test_tangents_of_integers_go_through_loops():
    """They have no elements: a loop that stacks or carries one did not compile."""

    def f(q: Any, np: Any, lax: Any) -> Any:
        def both(x: Any) -> Any:
            return lax.fori_loop(0, 3, lambda i, c: c + 1, 0), x * 2

        def derived(x: Any) -> Any:
            return q.jvp(both, (x,), (1.0,))

        def pulled(k: Any) -> Any:
            return q.vjp(lambda x, n: x * n, 2.0, k)[1](1.0)

        def run(x: Any) -> Any:
            return [
                lax.map(derived, x),
                lax.scan(lambda c, k: (derived(k)[1], c), derived(1.0)[1], x),
                lax.map(pulled, np.arange(3)),
                lax.while_loop(lambda c: c[0][1] < 9, lambda c: derived(c[0][1]), derived(1.0)),
                lax.cond(x[0] > 0, derived, lambda x: derived(x + 1), x[1]),
                q.vmap(lambda x: lax.map(derived, x))(np.stack([x, x])),
            ]

        return [q.jit(run)(X), run(X[:2])]

    check(f)


@pytest.mark.parametrize("name", ["add", "complex", "nextafter", "atan2", "max", "lt"])
def test_lax_functions_repeat_sizes_of_1(name):
    check(lambda q, np, lax: q.jit(getattr(lax, name))(X + 1, X[1:2] + 1))


def test_shifts_repeat_sizes_of_1():
    i = np.arange(1, 8, dtype=np.int32)
    for name in ("shift_left", "shift_right_logical", "shift_right_arithmetic", "bitwise_and"):
        check(lambda q, np, lax, name=name: getattr(lax, name)(i, i[1:2]))


def test_gradients_through_sorts_of_nothing():
    def f(q: Any, np: Any, lax: Any) -> Any:
        def total(f: Any, x: Any) -> Any:
            return q.jit(q.grad(lambda x: np.sum(f(x))))(x)

        rows = np.zeros((3, 0))
        return [
            total(np.sort, np.zeros(0)), total(lambda x: np.sort(x, 0), rows), total(lambda x: np.sort(x, 1), rows),
            total(lambda x: lax.top_k(x, 0)[0], X + 0), total(lambda x: x[np.lexsort((x, x))], np.zeros(0)),
        ]  # fmt: skip

    check(f)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_determinants_and_triangular_solves_of_half_precision(dtype):
    m = np.array([[4, 1, 0.5], [1, 3, 0.25], [0.5, 0.25, 2]], jnp.dtype(dtype))

    def f(q: Any, np: Any, lax: Any) -> Any:
        a = np.asarray(m)
        solved = lax.linalg.triangular_solve(a, a, left_side=True, lower=True)
        return [np.linalg.det(a), np.linalg.det(a[:2, :2]), q.scipy.linalg.solve_triangular(a, a[0]), solved]

    check(lambda q, np, lax: [v.astype("float32") for v in f(q, np, lax)], rtol=2e-2, atol=1e-2)


def test_the_slope_of_a_power_at_0():
    z = np.array([0.0, -0.0, 1.0, 2.0], np.float32)

    def f(q: Any, np: Any, lax: Any) -> Any:
        return [q.jvp(lambda x, y=y: x**y, (z,), (z * 0 + 1,))[1] for y in (-0.0, 0.0, 1.0, 2.0)] + [
            q.jvp(lambda x: x**2, (z,), (z,))[1],
            q.jvp(lambda x: x ** np.int32(0), (z,), (z,))[1],
        ]

    check(f)


def test_histograms_and_searches_of_nan_and_infinity():
    x = np.array([1, 2, np.nan, 3, np.inf, -np.inf, 2.5], np.float32)

    def f(q: Any, np: Any, lax: Any) -> Any:
        edges = np.array([0.0, 1.0, 2.0, 3.0])
        return q.jit(lambda x: [np.histogram(x, edges), np.histogram(x, 4, range=(0.0, 3.0)), np.digitize(x, edges)])(x)

    check(f)
