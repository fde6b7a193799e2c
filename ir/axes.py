"""Named axes in scope while a function is traced: those of `vmap`, `pmap` and `shard_map`, for collectives."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_axes: ContextVar[Mapping[Any, int]] = ContextVar("quire_axes", default={})  # noqa: B039 - never mutated


@contextmanager
def named_axis(name: Any, size: int) -> Generator[None]:
    """Bring a named axis of that size into scope (nothing for the name None)."""
    if name is None:
        yield
        return
    token = _axes.set({**_axes.get(), name: size})
    try:
        yield
    finally:
        _axes.reset(token)


def axis_sizes() -> Mapping[Any, int]:
    """The named axes in scope and their sizes."""
    return _axes.get()


def axis_size(name: Any) -> int:
    """The size of a named axis. Raises NameError where it is not in scope."""
    sizes = _axes.get()
    if name not in sizes:
        known = ", ".join(map(repr, sizes)) or "none"
        raise NameError(
            f"unbound axis name: {name!r}; the axes in scope are {known}. Give the name to vmap(..., axis_name={name!r})"
        )
    return sizes[name]
