"""The fft kernel against NumPy in double precision: every form, radix and kind, for several vector widths."""

from __future__ import annotations

import numpy as np
import pytest

from quire.backends.kernels import CPU_AVX2, CPU_AVX512, CPU_BASELINE, GPU, NoKernel, Spec
from quire.backends.kernels.fourier import plan as plans
from quire.backends.kernels.fourier.fft import LONGEST, Kind, choose, fft

RNG = np.random.default_rng(0)
C, H, W, R = Kind.COMPLEX, Kind.HALF, Kind.WHOLE, Kind.REAL
INVERSE = "inverse"

# (kind or inverse, shape of the longer side, dimension, bits, target, what the reason says)
CASES = [
    # rows: shuffles with whole and with partial runs, tails of later stages, factors 2, 3, 4, 5, 7, 8, 11, 13
    (C, (5, 512), 1, 32, CPU_AVX512, "rows, 512 = 8 x 8 x 8"), (INVERSE, (2, 400), 1, 32, CPU_AVX512, "4 x 4 x 5 x 5"),
    (C, (3, 1001), 1, 32, CPU_AVX512, "7 x 11 x 13"), (INVERSE, (486,), 0, 32, CPU_AVX2, "2 x 3 x 3 x 3 x 3 x 3"),
    (C, (9, 2048), 1, 32, CPU_AVX2, "8 x 4 x 4 x 4 x 4"), (C, (2, 360), 1, 64, CPU_BASELINE, "8 x 3 x 3 x 5"),
    # a prime by loops, a convolution
    (C, (2, 341), 1, 32, CPU_AVX2, "11 x 31"), (C, (3, 509), 1, 32, CPU_AVX512, "rows, a convolution of"),
    (INVERSE, (2, 211), 1, 64, CPU_AVX2, "rows, a convolution of"),
    # real numbers: half the length, an odd length, a convolution, few elements
    (H, (3, 800), 1, 32, CPU_AVX2, "rows, pairs as complex numbers, 400"), (W, (2, 640), 1, 64, CPU_AVX512, "pairs"),
    (R, (3, 800), 1, 32, CPU_AVX512, "pairs as complex numbers, 400"), (H, (2, 225), 1, 32, CPU_AVX2, "rows, 225"),
    (R, (2, 225), 1, 32, CPU_AVX2, "rows, 225"), (R, (2, 211), 1, 32, CPU_AVX2, "rows, a convolution"),
    (W, (2, 1018), 1, 32, CPU_AVX2, "pairs as complex numbers, a convolution"), (W, (2, 243), 1, 32, CPU_AVX2, "rows, 243"),
    (H, (19, 6), 1, 32, CPU_AVX2, "lanes"), (R, (3, 7), 1, 32, CPU_AVX2, "lanes"), (R, (9, 6), 1, 64, CPU_AVX2, "lanes"),
    # columns: a block that is moved back, narrow blocks, a convolution; lanes: masked, moved back, across other dimensions
    (C, (2, 40, 37), 1, 32, CPU_AVX2, "columns, 40 = 8 x 5"), (INVERSE, (2, 12, 9), 1, 32, CPU_AVX2, "columns, 12 = 4 x 3"),
    (C, (197, 16), 0, 32, CPU_AVX512, "columns, a convolution"), (C, (3, 31, 5), 1, 32, CPU_AVX2, "lanes, 31"),
    (INVERSE, (2, 18), 1, 64, CPU_AVX512, "lanes, 18 = 2 x 3 x 3"), (C, (2, 131, 3), 1, 32, CPU_AVX2, "lanes, a convolution"),
    (C, (8, 6, 140), 1, 32, CPU_AVX2, "columns, 6 = 2 x 3"), (C, (3, 2), 1, 32, CPU_BASELINE, "lanes, 2 = 2"),
]  # fmt: skip


def transform(x, kind, dim, n):
    if kind is R:
        return np.fft.irfft(x, n)
    return {INVERSE: np.fft.ifft, H: np.fft.rfft}.get(kind, np.fft.fft)(x, axis=dim)


def spec_of(kind, shape, bits):
    real = kind in (H, W)
    shape = (*shape[:-1], shape[-1] // 2 + 1) if kind is R else shape
    return Spec.of(shape, {32: "f32", 64: "f64"}[bits] if real else {32: "c64", 64: "c128"}[bits])


@pytest.fixture(scope="module")
def compiled(bundle):
    module, made = bundle(), []
    for kind, shape, dim, bits, target, _ in CASES:
        operand, given = spec_of(kind, shape, bits), C if kind == INVERSE else kind
        kernel, table = fft(operand, dim, given, target, length=shape[dim], inverse=kind == INVERSE)
        made.append((module.add(kernel), kernel, table, operand))
    module.compile()
    return module, made


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda i: "-".join(map(str, CASES[i][:4])))
def test_against_numpy(compiled, case):
    module, made = compiled
    kind, shape, dim, bits, _, reason = CASES[case]
    number, kernel, table, operand = made[case]
    assert reason in kernel.reason
    x = RNG.normal(size=operand.shape)
    if operand.dtype.parts == 2:
        x = x + 1j * RNG.normal(size=operand.shape)
    x = x.astype(operand.dtype.numpy())
    (got,) = module.run(number, x, table)
    want = transform(x.astype(np.complex128 if operand.dtype.parts == 2 else np.float64), kind, dim, shape[dim])
    assert got.shape == want.shape
    error = np.linalg.norm(got - want, axis=dim) / np.linalg.norm(want, axis=dim)
    assert error.max() < (4e-7 if bits == 32 else 1e-15)


def test_rows_with_nan_and_infinity_leave_others_alone(compiled):
    module, made = compiled
    for case, lost in ((0, 2), (20, 1)):  # rows; a column
        number, _, table, operand = made[case]
        x = np.ones(operand.shape, np.complex64)
        x[lost, 0, ...] = np.nan
        (got,) = module.run(number, x, table)
        finite = np.isfinite(got).all(axis=tuple(range(1, x.ndim)))
        assert not finite[lost] and finite.sum() == len(finite) - 1


def test_choices():
    assert str(choose(C, 1, 4096, 1, 32, CPU_AVX512)) == "rows, 4096 = 8 x 8 x 8 x 8"
    assert str(choose(C, 1, 4096, 1, 32, CPU_AVX2)) == "rows, 4096 = 4 x 4 x 4 x 4 x 4 x 4"
    assert str(choose(C, 1, 32, 1, 32, CPU_AVX2)) == "rows, 32 = 2 x 2 x 2 x 2 x 2"  # too few rows to fill lanes
    assert choose(C, 1, 512, 512, 64, CPU_BASELINE).width == 32
    assert choose(C, 1, 512, 9, 32, CPU_AVX2).width == 8 and choose(C, 1, 4096, 64, 32, CPU_AVX2).width == 16


@pytest.mark.parametrize(
    "spec, dim, target, why",
    [
        (Spec.of((4, 34), "c64"), 1, GPU, "no prime factors above 13"), (Spec.of((4, 8), "f16"), 1, CPU_AVX2, "has no f16"),
        (Spec.of((1 << 30,), "c64"), 0, CPU_AVX2, "places of 32 bits"),
        (Spec.of((LONGEST + 1,), "c64"), 0, CPU_AVX2, "lengths up to"),
    ],
)  # fmt: skip
def test_what_does_not_apply(spec, dim, target, why):
    with pytest.raises(NoKernel, match=why):
        fft(spec, dim, C, target)


def test_radices():
    for n in range(1, 300):
        for widest in (2, 4, 8):
            factors = plans.radices(n, widest)
            assert np.prod(factors, dtype=int) == n
            assert all(f in (2, 4, 8) or f % 2 for f in factors)
    assert (
        plans.radices(128, 8) == [8, 4, 4]
        and plans.radices(1024, 4) == [4] * 5
        and plans.radices(512, 4) == [8, 4, 4, 4]
    )
    assert not plans.convolved(961, 0) and plans.convolved(127, 0) >= 253 and plans.cost(131) == np.inf
    for n in (67, 997, 30011):
        m = plans.bluestein_length(n, 0)
        assert 2 * n - 1 <= m <= 4 * n and max(plans.radices(m)) <= 8


def test_roots_of_unity():
    for n in (1, 2, 3, 8, 12, 100):
        np.testing.assert_allclose(
            plans.roots_of_unity(np.arange(3 * n), n), np.exp(-2j * np.pi * np.arange(3 * n) / n), atol=2e-15
        )
    assert plans.roots_of_unity(np.array([2, 4, 6, 1]), 8).tolist()[:3] == [-1j, -1, 1j]
