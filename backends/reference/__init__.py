"""quire.backends.reference: each primitive evaluated by NumPy."""

from . import calls, control_flow, elementwise, reductions, structural
from .engine import eval_jaxpr, evaluate
from .rules import reference

__all__ = ["calls", "control_flow", "elementwise", "eval_jaxpr", "evaluate", "reductions", "reference", "structural"]
