"""quire.backends.reference: each primitive evaluated by NumPy."""

from . import calls, contraction, elementwise, fft, linalg, random, reductions, structural
from .engine import eval_jaxpr, evaluate
from .rules import reference

__all__ = [
    "calls", "contraction", "elementwise", "eval_jaxpr", "evaluate", "fft", "linalg", "random", "reductions",
    "reference", "structural",
]  # fmt: skip
