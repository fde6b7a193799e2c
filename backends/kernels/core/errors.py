"""That there is no kernel, and why: the one way in which a kernel says that it does not apply.

Templates, plans, rules and guards raise it wherever they find out. `backends/stablehlo/kernel_calls.py` is the place
where it is caught: the equation is lowered to StableHLO, and the reason is kept for who looks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class NoKernel(Exception):
    """What is asked for does not become a kernel; `reason` is the sentence that is printed beside the equation."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TooManyArrays(NoKernel):
    """It has more arrays, its own among them, than can be bound to a dispatch."""

    def __init__(self, count: int, most: int) -> None:
        super().__init__(f"{count} arrays are more than the {most} that a dispatch can be given")


@contextmanager
def no_kernel_of(what: str) -> Iterator[None]:
    """A context in which the reasons of :class:`NoKernel` begin with ``what``."""
    try:
        yield
    except NoKernel as no:
        raise NoKernel(f"{what}: {no.reason}") from None
