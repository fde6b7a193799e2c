"""Derivative rules of fft: it is linear, and its matrix is symmetric."""

from __future__ import annotations

import math

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import fft as ff
from quire.ir.primitives import structural as st

from .rules import Value, define_linear


def _transposed(ct: Value, aval: ShapedArray, *, fft_type: ff.FftType, fft_lengths: tuple[int, ...]) -> Value:
    if fft_type in (ff.FftType.FFT, ff.FftType.IFFT):
        return ff.fft(ct, fft_type, fft_lengths)
    n = fft_lengths[-1]
    if fft_type is ff.FftType.RFFT:
        # RFFT is FFT of a real array, then a slice.
        ct_aval = aval_of(ct)
        pads = [(0, 0, 0)] * (ct_aval.ndim - 1) + [(0, n - ct_aval.shape[-1], 0)]
        return ew.real(ff.fft(st.pad(ct, np.zeros((), ct_aval.dtype)[()], pads), ff.FftType.FFT, fft_lengths))
    # IRFFT counts each value twice, but not the first and, for even n, the last: their conjugates are not implied.
    x = ff.fft(ct, ff.FftType.RFFT, fft_lengths)
    shape, dtype = aval_of(x).shape, aval_of(x).dtype
    part = dtypes.real_dtype(dtype)
    index = st.broadcasted_iota(dtypes.int32, shape, len(shape) - 1)
    once = ew.eq(index, np.int32(0))
    if n % 2 == 0:
        once = ew.bitwise_or(once, ew.eq(index, np.int32(n // 2)))
    scale = 1 / math.prod(fft_lengths)
    factor = ew.select_n(once, st.full(shape, 2 * scale, part), st.full(shape, scale, part))
    return ew.conj(ew.mul(x, ew.convert_element_type(factor, dtype)))


define_linear(ff.fft_p, _transposed)
