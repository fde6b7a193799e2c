"""Keeping kernels: a program of many equal parts writes the text of each kernel once.

Jaxprs are equal up to the names of their variables, so all layers of a network that are alike ask
for the same kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import ParamSpec, TypeVar

from .errors import NoKernel

P = ParamSpec("P")
R = TypeVar("R")


def memoized(maxsize: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: keep the last results of a function of hashable arguments, its :class:`NoKernel` too."""

    def decorate(f: Callable[P, R]) -> Callable[P, R]:
        @functools.lru_cache(maxsize=maxsize)
        def made(*args: Hashable, **kwargs: Hashable) -> R | NoKernel:
            try:
                return f(*args, **kwargs)  # type: ignore[arg-type]
            except NoKernel as no:
                # Another one: the frames of this one hold all of the attempt.
                return NoKernel(no.reason)

        @functools.wraps(f)
        def kept(*args: P.args, **kwargs: P.kwargs) -> R:
            found = made(*args, **kwargs)
            if isinstance(found, NoKernel):
                raise NoKernel(found.reason)
            return found

        kept.cache_info = made.cache_info  # type: ignore[attr-defined]
        kept.cache_clear = made.cache_clear  # type: ignore[attr-defined]
        return kept

    return decorate
