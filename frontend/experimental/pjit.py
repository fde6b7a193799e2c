"""`pjit`, the older name of `jit`."""

from __future__ import annotations

from ..compiling.api import jit as pjit

__all__ = ["pjit"]
