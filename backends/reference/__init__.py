"""quire.backends.reference: each primitive evaluated by NumPy."""

from quire.ir.primitives import load_rules

from .engine import eval_jaxpr, evaluate
from .rounding import spread
from .rules import reference

load_rules(__name__)

__all__ = ["eval_jaxpr", "evaluate", "reference", "spread"]
