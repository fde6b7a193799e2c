"""Named axes in scope while a function is traced: those of `vmap`, `pmap` and `shard_map`, for collectives."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from .avals import NO_AXES, AxisNames

_axes: ContextVar[Mapping[Any, int]] = ContextVar("quire_axes", default={})  # noqa: B039 - never mutated
_checked: ContextVar[AxisNames] = ContextVar("quire_checked_axes", default=NO_AXES)
_manual: ContextVar[AxisNames] = ContextVar("quire_manual_axes", default=NO_AXES)


@contextmanager
def named_axis(name: Any, size: int) -> Generator[None]:
    """Bring a named axis of that size into scope (nothing for the name None)."""
    if name is None:
        yield
        return
    token = _axes.set({**_axes.get(), name: size})
    # The name means this axis now, not that of a mesh around.
    checked = _checked.set(_checked.get() - {name})
    try:
        yield
    finally:
        _checked.reset(checked)
        _axes.reset(token)


@contextmanager
def mesh_axes(sizes: Mapping[Any, int], checked: bool) -> Generator[None]:
    """Bring the manual axes of a mesh into scope; `checked`: types say along which of them values vary."""
    token = _axes.set({**_axes.get(), **sizes})
    before = _checked.get().difference(sizes)
    varying = _checked.set(before.union(sizes) if checked else before)
    manual = _manual.set(_manual.get().union(sizes))
    try:
        yield
    finally:
        _manual.reset(manual)
        _checked.reset(varying)
        _axes.reset(token)


def axis_sizes() -> Mapping[Any, int]:
    """The named axes in scope and their sizes."""
    return _axes.get()


def checked_axes() -> AxisNames:
    """The axes in scope along which types say whether values vary."""
    return _checked.get()


def manual_axes() -> AxisNames:
    """The mesh axes in scope of which the program sees one device's part."""
    return _manual.get()


def axes_key() -> Any:
    """What a trace depends on: the axes in scope, hashable; None without any."""
    axes = _axes.get()
    return (tuple(axes.items()), _checked.get(), _manual.get()) if axes else None


def axis_size(name: Any) -> int:
    """The size of a named axis. Raises NameError where it is not in scope."""
    sizes = _axes.get()
    if name not in sizes:
        known = ", ".join(map(repr, sizes)) or "none"
        raise NameError(
            f"unbound axis name: {name!r}; the axes in scope are {known}. Give the name to vmap(..., axis_name={name!r})"
        )
    return sizes[name]
