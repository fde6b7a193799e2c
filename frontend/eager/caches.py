"""Forgetting what was traced and compiled."""

from __future__ import annotations

from quire.passes.cache import clear_transforms

from ..compiling.compiled_function import clear_compiled_functions
from .evaluation import programs


def clear_caches() -> None:
    """Forget all traces, compiled programs and transformed jaxprs of this process (`jax.clear_caches`).

    Programs in the cache on the disk stay; they are loaded instead of compiled.

    Example:
        >>> import quire
        >>> f = quire.compile(lambda x: x + 1)
        >>> _ = f(1.0)
        >>> quire.clear_caches()
        >>> f.cache_info().currsize
        0
    """
    clear_compiled_functions()
    programs.clear()
    clear_transforms()
