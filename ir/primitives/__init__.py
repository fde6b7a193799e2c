"""The primitives, a file a family, each declaration followed by the thin functions that bind it."""

from . import calls, elementwise, indexing, reductions, sorting, structural, windows

__all__ = ["calls", "elementwise", "indexing", "reductions", "sorting", "structural", "windows"]
