"""The top_k kernels against a stable NumPy sort in JAX's order, and JAX itself, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from quire.backends.kernels import CPU_AVX2, CPU_BASELINE, DTYPES, GPU, NoKernel, Spec, top_k

REAL = [name for name, d in DTYPES.items() if d.kind != "complex"]

CASES = [
    *((name, (5, 7), 3, CPU_AVX2) for name in REAL),
    *((name, (2, 300), 9, CPU_AVX2) for name in REAL),
    *((name, (2, 300), 40, CPU_AVX2) for name in REAL),
    *((name, (2, 1500), 40, CPU_AVX2) for name in REAL),
    *(("f32", (n,), k, CPU_AVX2) for n in (1, 8, 64) for k in {0, 1, n}),
    *(("f32", (n,), k, CPU_AVX2) for n in (65, 257) for k in (0, 1, 31, 32, 33, n)),
    *(("f64", (n,), k, CPU_AVX2) for n in (64, 65) for k in (1, 32, n)),
    *((name, (100_000,), k, CPU_AVX2) for name in ("f32", "i64") for k in (8, 1000)),
    *((name, (3, 99), k, CPU_BASELINE) for name in ("f32", "i8") for k in (4, 50)),
    ("f32", (0, 5), 2, CPU_AVX2),
]


@pytest.fixture(scope="module")
def compiled(bundle):
    module = bundle()
    numbers = [module.add(top_k(Spec.of(shape, name), k, target)) for name, shape, k, target in CASES]
    module.compile()
    return module, numbers


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda i: "-".join(map(str, CASES[i][:3])))
def test_top_k(compiled, tools, case):
    module, numbers = compiled
    name, shape, k, _ = CASES[case]
    x = tools.sample(DTYPES[name].numpy(), shape, np.random.default_rng(case))
    values, places = module.run(numbers[case], x)
    key = tools.order_keys(x, total=True)[0]
    expected = np.argsort(~key if key.dtype != bool else ~key, axis=-1, kind="stable")[..., :k]
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(tools.bits(values), tools.bits(np.take_along_axis(x, expected, -1)))


@pytest.mark.parametrize("k", [5, 50, 900])
def test_ascending_rows(bundle, k):
    n = 3001
    module = bundle()
    number = module.add(top_k(Spec.of((n,), "i32"), k, CPU_AVX2))
    module.compile()
    for x in (np.arange(n), -np.arange(n), np.zeros(n), np.full(n, -(2**31))):
        x = x.astype(np.int32)
        values, places = module.run(number, x)
        np.testing.assert_array_equal(places, np.argsort(-x.astype(np.int64), kind="stable")[:k])
        np.testing.assert_array_equal(values, x[places])


def test_top_k_equals_jax(bundle, tools):
    jax = pytest.importorskip("jax")
    module = bundle()
    cases = [("f32", 30, 4), ("f32", 400, 4), ("f32", 400, 100), ("bf16", 400, 7), ("u8", 400, 50)]
    numbers = [module.add(top_k(Spec.of((2, n), name), k, CPU_AVX2)) for name, n, k in cases]
    module.compile()
    for number, (name, n, k) in zip(numbers, cases):
        x = tools.sample(DTYPES[name].numpy(), (2, n), np.random.default_rng(n + k))
        if x.dtype.kind != "u":  # JAX may lose the payload of a NaN, but not its sign
            with np.errstate(invalid="ignore"):
                x = np.where(np.isnan(x), np.copysign(np.full_like(x, np.nan), x), x)
        for got, wanted in zip(module.run(number, x), jax.lax.top_k(jax.numpy.asarray(x), k)):
            np.testing.assert_array_equal(tools.bits(got), tools.bits(np.asarray(wanted)))


def test_what_top_k_does_not_take():
    with pytest.raises(NoKernel, match="complex numbers have no order"):
        top_k(Spec.of((4,), "c64"), 1, CPU_AVX2)
    with pytest.raises(NoKernel, match="k must be between 0 and the length of the last axis, got 5"):
        top_k(Spec.of((4,), "f32"), 5, CPU_AVX2)
    assert "bitonic" in top_k(Spec.of((4,), "f32"), 1, GPU).reason
