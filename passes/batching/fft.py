"""Batching rule of fft: leading dimensions are batch dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.primitives import fft as ff

from .rules import Axis, Dim, Value, batching, to_front


@batching(ff.fft_p)
def fft(axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], **params: Any) -> tuple[Value, int]:
    return ff.fft_p.bind(to_front(operands[0], dims[0], axis.size), **params), 0
