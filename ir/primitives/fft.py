"""The discrete Fourier transform over trailing dimensions."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..avals import ShapedArray
from ..primitive import primitive
from .common import COMPLEX, check_dtype

Value = Any


class FftType(enum.IntEnum):
    """Which transform: forward, inverse, of real data to half a spectrum, and back."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3

    def __str__(self) -> str:
        return self.name


@primitive("fft")
def fft_p(x: ShapedArray, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> ShapedArray:
    """Discrete Fourier transform over the last ``len(fft_lengths)`` dimensions (1 to 3).

    FFT: ``y[k] = sum_j x[j] exp(-2 pi i j k / n)``; IFFT the inverse, with factor 1/n. RFFT keeps the first n/2+1
    values of the last dimension; IRFFT is its inverse and ignores the imaginary parts that a real signal cannot have.

    Raises:
        ValueError: there are not 1 to 3 lengths, or x's last dimensions are not those that they ask for.
        TypeError: x's dtype is not that of `fft_type`: float32 or float64 for RFFT, complex for the others.
    """
    n = len(fft_lengths)
    if not 1 <= n <= 3:
        raise ValueError(f"fft: fft_lengths {fft_lengths} must have 1 to 3 entries")
    if n > x.ndim:
        raise ValueError(f"fft: fft_lengths {fft_lengths} needs {n} trailing dimensions, got {x.short()}")
    if fft_type is FftType.RFFT:
        check_dtype("fft", x, (dtypes.float32, dtypes.float64))
    else:
        check_dtype("fft", x, COMPLEX)
    want = fft_lengths
    if fft_type is FftType.IRFFT:
        want = (*fft_lengths[:-1], fft_lengths[-1] // 2 + 1 if fft_lengths[-1] else 0)
    if x.shape[x.ndim - n :] != want:
        raise ValueError(
            f"fft: the last dimensions of {x.short()} must be {want} for {fft_type.name} with fft_lengths {fft_lengths}"
        )
    shape = x.shape[: x.ndim - n]
    if fft_type is FftType.RFFT:
        last = fft_lengths[-1] // 2 + 1 if fft_lengths[-1] else 0
        return ShapedArray((*shape, *fft_lengths[:-1], last), dtypes.complex_dtype(x.dtype))
    if fft_type is FftType.IRFFT:
        return ShapedArray((*shape, *fft_lengths), dtypes.real_dtype(x.dtype))
    return ShapedArray(x.shape, x.dtype)


def as_fft_type(fft_type: Any) -> FftType:
    """A `FftType` or its name in any case. Raises ValueError for others."""
    if isinstance(fft_type, str):
        found = FftType.__members__.get(fft_type.upper())
        if found is None:
            raise ValueError(f"fft: unknown fft_type {fft_type!r}, expected one of {', '.join(FftType.__members__)}")
        return found
    return FftType(int(fft_type))


def fft(x: Value, fft_type: Any, fft_lengths: Sequence[int]) -> Value:
    """Discrete Fourier transform over the last dimensions; see `fft_p`."""
    return fft_p.bind(x, fft_type=as_fft_type(fft_type), fft_lengths=tuple(int(n) for n in fft_lengths))
