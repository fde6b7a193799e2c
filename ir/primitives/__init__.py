"""The primitives, a file a family, each declaration followed by the thin functions that bind it."""

from . import calls, contraction, elementwise, fft, linalg, random, reductions, structural

__all__ = ["calls", "contraction", "elementwise", "fft", "linalg", "random", "reductions", "structural"]
