"""What is transformed by a Fourier transform of one dimension."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """Complex to complex; real to half or all of the spectrum; half a spectrum to real."""

    COMPLEX = "complex"
    HALF = "real to half"
    WHOLE = "real to whole"
    REAL = "half to real"


@dataclass(frozen=True)
class Problem:
    """``outer`` x ``inner`` transforms of length n; ``sizes`` of the dimension in operand and result."""

    kind: Kind
    outer: int
    n: int
    inner: int
    sizes: tuple[int, int]
    inverse: bool
