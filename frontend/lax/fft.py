"""The discrete Fourier transform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.primitives import fft as ff

FftType = ff.FftType


def fft(x: Any, fft_type: Any, fft_lengths: Sequence[int]) -> Any:
    """Discrete Fourier transform over the last ``len(fft_lengths)`` dimensions (1 to 3), of any length.

    Args:
        x: complex64 or complex128; float32 or float64 for RFFT.
        fft_type: a `FftType` or its name: ``"FFT"``, ``"IFFT"``, ``"RFFT"``, ``"IRFFT"``.
        fft_lengths: the transformed sizes (for IRFFT those of the result).

    Raises TypeError for another dtype, ValueError when x's last dimensions do not fit the lengths.

    Example: ``lax.fft(x, "FFT", (64,))``
    """
    return ff.fft(x, fft_type, fft_lengths)
