"""The primitives, a file a family, each declaration followed by the thin functions that bind it."""

from . import calls, elementwise, reductions, structural

__all__ = ["calls", "elementwise", "reductions", "structural"]
