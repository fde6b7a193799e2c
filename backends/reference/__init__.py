"""quire.backends.reference: each primitive evaluated by NumPy."""

from . import calls, elementwise, elementwise_math, reductions, structural
from .engine import eval_jaxpr, evaluate
from .rules import reference

__all__ = ["calls", "elementwise", "elementwise_math", "eval_jaxpr", "evaluate", "reductions", "reference", "structural"]
