"""Factors of Fourier transforms: the dimensions that are not transformed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.primitives import fft as ff

from .rules import Factors, factors, leading

Avals = Sequence[ShapedArray]


@factors(ff.fft_p)
def _fft(in_avals: Avals, out_avals: Avals, *, fft_lengths: Sequence[int], **_: Any) -> Factors:
    return leading(in_avals[0].ndim - len(fft_lengths), in_avals, out_avals)
