"""Products of complex matrices against NumPy: element types, vector widths, tails, parts of k, decisions."""

from __future__ import annotations

import numpy as np
import pytest

from quire.backends.kernels import CPU_AVX2, CPU_AVX512, CPU_BASELINE, GPU, NoKernel, Spec, complex_dot, dtype_of

# lhs, rhs, element type, target
CASES = {
    "square": ((1, 64, 64), (1, 64, 64), "c64", CPU_AVX2),
    "odd, in a batch": ((3, 37, 19), (3, 19, 23), "c64", CPU_AVX2),
    "one column": ((1, 64, 64), (1, 64, 1), "c64", CPU_AVX2),
    "one row": ((1, 1, 130), (1, 130, 77), "c64", CPU_AVX2),
    "one summed": ((2, 33, 1), (2, 1, 65), "c64", CPU_AVX2),
    "parts of k": ((1, 21, 1100), (1, 1100, 33), "c64", CPU_AVX2),
    "blocks": ((1, 301, 500), (1, 500, 301), "c64", CPU_AVX2),
    "double": ((2, 37, 41), (2, 41, 23), "c128", CPU_AVX2),
    "double in parts": ((1, 9, 700), (1, 700, 35), "c128", CPU_AVX2),
    "avx512": ((1, 61, 70), (1, 70, 45), "c64", CPU_AVX512),
    "baseline": ((1, 61, 70), (1, 70, 45), "c128", CPU_BASELINE),
}
RTOL = {"c64": 1e-5, "c128": 1e-13}


def chosen(lhs, rhs, name, target):
    return complex_dot(Spec.of(lhs, name), Spec.of(rhs, name), target)


@pytest.fixture(scope="module")
def compiled(bundle):
    module = bundle()
    for case in CASES.values():
        module.add(chosen(*case))
    return module.compile()


def draw(shape, name, rng):
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype_of(name).numpy())


@pytest.mark.parametrize("number", range(len(CASES)), ids=list(CASES))
def test_product(compiled, number):
    lhs, rhs, name, _ = list(CASES.values())[number]
    rng = np.random.default_rng(number)
    x, y = draw(lhs, name, rng), draw(rhs, name, rng)
    (got,) = compiled.run(number, x, y)
    tolerance = RTOL[name]
    expected = x.astype(np.complex128) @ y.astype(np.complex128)
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * np.sqrt(lhs[2]) * 4)


def test_nans_stay_in_their_column(compiled):
    # Strips that reach beyond the matrix must not bring other columns' numbers in.
    number = list(CASES).index("odd, in a batch")
    lhs, rhs, *_ = CASES["odd, in a batch"]
    x, y = np.ones(lhs, np.complex64), np.ones(rhs, np.complex64)
    y[1, 3, 22] = np.nan
    (got,) = compiled.run(number, x, y)
    expected = np.zeros(got.shape, bool)
    expected[1, :, 22] = True
    np.testing.assert_array_equal(np.isnan(got), expected)


def test_what_is_left_to_stablehlo():
    with pytest.raises(NoKernel, match="^complex 1 x 4x4 @ 4x4 c64: fewer than 8192 real operations$"):
        chosen((1, 4, 4), (1, 4, 4), "c64", CPU_AVX2)
    with pytest.raises(NoKernel, match="^the contraction kernels are for CPUs$"):
        chosen((1, 64, 64), (1, 64, 64), "c64", GPU)
