"""The primitives, a file a family, each declaration followed by the thin functions that bind it."""

from . import calls, control_flow, elementwise, reductions, structural

__all__ = ["calls", "control_flow", "elementwise", "reductions", "structural"]
