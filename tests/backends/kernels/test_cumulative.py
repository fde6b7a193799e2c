"""The cumulative kernels against NumPy's accumulate, and JAX on special values."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from quire.backends.kernels import CPU_AVX2, CPU_AVX512, CPU_BASELINE, DTYPES, NoKernel, Spec, cumulative
from quire.backends.kernels.scans.cumulative import check

OPS = ("sum", "prod", "max", "min", "logsumexp")
TOLERANCE = {"f16": 2e-3, "bf16": 1e-2, "f32": 1e-5, "c64": 1e-5, "f64": 1e-13, "c128": 1e-13}
# (shape, dimension, reverse): lanes and their neighbours, columns, few columns, several strips
SHAPES = [((3, 37), 1, False), ((3, 37), 1, True), ((9, 2), 0, True), ((4, 5, 33), 1, False)]


def cases() -> list[tuple]:
    out = []
    for op in OPS:
        for name, dtype in DTYPES.items():
            with suppress(NoKernel):
                check(op, dtype)
                shapes = SHAPES if op in ("sum", "max") else SHAPES[1:2]
                out += [(op, name, shape, dim, reverse, CPU_AVX2) for shape, dim, reverse in shapes]
    for n in (0, 1, 7, 8, 9, 255, 256, 257, 100_000):
        out += [("sum", name, (n,), 0, reverse, CPU_AVX2) for name in ("i32", "f64") for reverse in (False, True)]
    out += [("max", "f32", (5, n), 0, n % 2 == 0, CPU_AVX2) for n in (3, 4, 6, 511, 512, 513, 1100)]
    out += [("sum", "i16", (70, 3), 0, False, target) for target in (CPU_BASELINE, CPU_AVX512)]
    out += [("prod", "c64", (2, 21), 1, True, target) for target in (CPU_BASELINE, CPU_AVX512)]
    return out


CASES = cases()


@pytest.fixture(scope="module")
def compiled(bundle):
    module = bundle()
    numbers = [
        module.add(cumulative(op, Spec.of(shape, name), dim, target, reverse=reverse))
        for op, name, shape, dim, reverse, target in CASES
    ]
    module.compile()
    return module, numbers


def accumulate(op: str, x: np.ndarray, axis: int) -> np.ndarray:
    if op == "sum":
        return np.cumsum(x, axis=axis, dtype=x.dtype)
    if op == "prod":
        return np.cumprod(x, axis=axis, dtype=x.dtype)
    return {"max": np.maximum, "min": np.minimum, "logsumexp": np.logaddexp}[op].accumulate(x, axis=axis)


def draw(dtype: np.dtype, shape, rng) -> np.ndarray:
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -100, 100, shape).astype(dtype)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape)).astype(dtype) if dtype.kind == "c" else x.astype(dtype)


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda i: "-".join(map(str, CASES[i][:5])))
def test_cumulative(compiled, case):
    module, numbers = compiled
    op, name, shape, dim, reverse, _ = CASES[case]
    x = draw(DTYPES[name].numpy(), shape, np.random.default_rng(case))
    (got,) = module.run(numbers[case], x)
    wide = x.astype(np.float32) if name in ("f16", "bf16") else x
    flip = (lambda v: np.flip(v, dim)) if reverse else (lambda v: v)
    expected = flip(accumulate(op, flip(wide), dim))
    tolerance = TOLERANCE.get(name, 0)
    if name in ("f16", "bf16"):
        got = got.astype(np.float32)
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * max(10, shape[dim]))


def test_special_values(bundle, tools):
    jax = pytest.importorskip("jax")
    functions = {"sum": "cumsum", "max": "cummax", "min": "cummin", "logsumexp": "cumlogsumexp"}
    x = np.array(
        [
            [-0.0, 0.0, 1, -np.inf, 2, 3, np.inf, 1, 4, np.inf],
            [-np.inf, -np.inf, 0, 1, np.nan, 5, 6, -0.0, 1, 2],
        ]
    )
    x = np.concatenate([x, x[:, ::-1]], 1).astype(np.float32)
    module = bundle()
    numbers = {
        (op, dim): module.add(cumulative(op, Spec.of(x.shape if dim else x.T.shape, "f32"), dim, CPU_AVX2))
        for op in functions
        for dim in (0, 1)
    }
    module.compile()
    for (op, dim), number in numbers.items():
        given = x if dim else np.ascontiguousarray(x.T)
        expected = np.asarray(getattr(jax.lax, functions[op])(jax.numpy.asarray(given), axis=dim))
        (got,) = module.run(number, given)
        np.testing.assert_allclose(got, expected, rtol=1e-6, err_msg=f"{op} {dim}")
        if op in ("max", "min"):
            np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(expected[~np.isnan(got)]))


def test_extremes_keep_denormals(bundle):
    x = np.array([0, 1e-45, 3e-45, 2e-45, 0], np.float32)
    module = bundle()
    numbers = [module.add(cumulative(op, Spec.of((5,), "f32"), 0, CPU_AVX2)) for op in ("max", "min")]
    module.compile()
    np.testing.assert_array_equal(module.run(numbers[0], x)[0], np.maximum.accumulate(x))
    np.testing.assert_array_equal(module.run(numbers[1], x)[0], np.minimum.accumulate(x))


def test_what_is_not_taken():
    with pytest.raises(NoKernel, match="bool has no cumulative operations"):
        cumulative("sum", Spec.of((3,), "bool"), 0, CPU_AVX2)
    with pytest.raises(NoKernel, match="logsumexp is for real floats"):
        cumulative("logsumexp", Spec.of((3,), "i32"), 0, CPU_AVX2)
