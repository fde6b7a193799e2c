"""Names for parts of programs, which dumps and errors show."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, TypeVar

from quire.ir import source

F = TypeVar("F", bound=Callable[..., Any])


class named_scope(contextlib.ContextDecorator):
    """Operations in the block, or of the decorated function, get a name that dumps and errors show (`jax.named_scope`).

    Blocks nest: ``encoder/attention``. The names are in the source of each equation: ``dumpir --source``, the locations
    of the StableHLO text, and the messages of errors.

    Args:
        name: a string without line breaks; TypeError or ValueError otherwise.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> def f(x):
        ...     with quire.named_scope("rotation"):
        ...         return qnp.cos(x)
        >>> quire.make_jaxpr(f)(1.0).eqns[0].source.scope
        'rotation'
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"quire.named_scope: name must be a string, got {name!r} of type {type(name).__name__}")
        if not name or "\n" in name:
            raise ValueError(f"quire.named_scope: name must be a line of text, got {name!r}")
        self.name = name
        self._blocks: list[contextlib.AbstractContextManager[None]] = []

    def _recreate_cm(self) -> named_scope:
        return named_scope(self.name)

    def __enter__(self) -> named_scope:
        block = source.named_scope(self.name)
        block.__enter__()
        self._blocks.append(block)
        return self

    def __exit__(self, *exc: Any) -> None:
        self._blocks.pop().__exit__(*exc)


def named_call(fun: F, *, name: str | None = None) -> F:
    """The function with its operations in a `named_scope` of its name, or of `name` (`jax.named_call`).

    Raises:
        TypeError: `fun` is not a function.

    Example:
        >>> import quire
        >>> g = quire.named_call(lambda x: x * 2, name="double")
        >>> quire.make_jaxpr(g)(1.0).eqns[0].source.scope
        'double'
    """
    if not callable(fun):
        raise TypeError(f"quire.named_call: fun must be a function, got {fun!r}")
    label = name if name is not None else getattr(fun, "__name__", type(fun).__name__)

    @functools.wraps(fun)
    def named(*args: Any, **kwargs: Any) -> Any:
        with named_scope(label):
            return fun(*args, **kwargs)

    return named  # type: ignore[return-value]
