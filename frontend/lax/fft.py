"""The discrete Fourier transform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import fft as ff

from .elementwise import made_inexact

FftType = ff.FftType


def fft(x: Any, fft_type: Any, fft_lengths: Sequence[int]) -> Any:
    """Discrete Fourier transform over the last ``len(fft_lengths)`` dimensions (up to 3), of any length.

    Args:
        x: complex64 or complex128; float32 or float64 for RFFT. Integers and bools are made floats, and what is real is
            made complex where it is not RFFT.
        fft_type: a `FftType` or its name: ``"FFT"``, ``"IFFT"``, ``"RFFT"``, ``"IRFFT"``.
        fft_lengths: the transformed sizes (for IRFFT those of the result).

    Raises TypeError for another dtype, ValueError when x's last dimensions do not fit the lengths.

    Example: ``lax.fft(x, "FFT", (64,))``
    """
    kind, x = ff.as_fft_type(fft_type), made_inexact(x)
    dtype = aval_of(x).dtype
    if kind is not ff.FftType.RFFT and not dtypes.is_complex(dtype):
        x = ew.convert_element_type(x, dtypes.complex_dtype(dtype))
    if not len(fft_lengths) and kind in (ff.FftType.FFT, ff.FftType.IFFT):
        return x  # over no dimension
    return ff.fft(x, kind, fft_lengths)


__all__ = ["FftType", "fft"]
