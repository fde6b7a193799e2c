"""Reference rule of fft: SciPy's, which computes f32 in f32; leading dimensions are transformed one at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.primitives import fft as ff

from .rules import reference


@reference(ff.fft_p)
def fft(x: Any, *, fft_type: ff.FftType, fft_lengths: tuple[int, ...]) -> Any:
    axes = tuple(range(x.ndim - len(fft_lengths), x.ndim))
    if x.size == 0 or 0 in fft_lengths:
        shape = (*x.shape[: x.ndim - len(fft_lengths)], *fft_lengths)
        if fft_type is ff.FftType.RFFT:
            shape = (*shape[:-1], fft_lengths[-1] // 2 + 1 if fft_lengths[-1] else 0)
        real = fft_type is ff.FftType.IRFFT
        return np.zeros(shape, dtypes.real_dtype(x.dtype) if real else dtypes.complex_dtype(x.dtype))
    import scipy.fft  # not at the top: it takes a quarter of a second

    if fft_type is ff.FftType.FFT:
        return scipy.fft.fftn(x, axes=axes)
    if fft_type is ff.FftType.IFFT:
        return scipy.fft.ifftn(x, axes=axes)
    if fft_type is ff.FftType.RFFT:
        return scipy.fft.rfftn(x, axes=axes)
    if len(axes) > 1:
        x = scipy.fft.ifftn(x, axes=axes[:-1])
    return scipy.fft.irfft(x, fft_lengths[-1], axis=-1)
