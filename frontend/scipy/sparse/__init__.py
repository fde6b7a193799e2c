"""quire.scipy.sparse: `linalg`, the iterative solution of linear equations."""

from __future__ import annotations

from ...absent_names import module_getattr

#: Submodules that are imported when first used.
_LAZY = ("linalg",)
__getattr__ = module_getattr("quire.scipy.sparse", globals(), _LAZY)
