"""quire.backends.reference: each primitive evaluated by NumPy."""

from quire.ir.tracing import hooks as _hooks

from . import calls, elementwise, reductions, structural
from .engine import eval_jaxpr, evaluate
from .rules import reference

_hooks.reference = evaluate

__all__ = ["calls", "elementwise", "eval_jaxpr", "evaluate", "reductions", "reference", "structural"]
