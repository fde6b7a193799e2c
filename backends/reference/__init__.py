"""quire.backends.reference: each primitive evaluated by NumPy."""

from . import calls, elementwise, indexing, reductions, sorting, structural, windows
from .engine import eval_jaxpr, evaluate
from .rules import reference

__all__ = [
    "calls", "elementwise", "eval_jaxpr", "evaluate", "indexing", "reductions", "reference", "sorting", "structural",
    "windows",
]  # fmt: skip
