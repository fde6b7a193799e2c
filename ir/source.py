"""The user's source position of each equation: file, line and function.

quire's own frames are skipped, so that an error of any stage names a line that the user wrote.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, NoReturn, TypeVar

import numpy as np

from .errors import OutOfMemoryError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Source:
    """A position in the user's program.

    `scope` holds the names of the `named_scope`s around it, outermost first: ``encoder/attention``.
    """

    file: str
    line: int
    function: str
    scope: str = ""

    def __str__(self) -> str:
        within = f" [{self.scope}]" if self.scope else ""
        return f"{self.file}:{self.line} ({self.function}){within}"


# The folders of quire's own packages; registered by each package's __init__ and by `quire` itself.
_internal_prefixes: list[str] = []
_is_internal: dict[CodeType, bool] = {}
_interned: dict[tuple[CodeType, int, str], Source] = {}
_scope: ContextVar[str] = ContextVar("quire_scope", default="")


@contextmanager
def named_scope(name: str) -> Generator[None]:
    """Equations recorded in the block have this name, below those of blocks around it, in their source."""
    outer = _scope.get()
    token = _scope.set(f"{outer}/{name}" if outer else name)
    try:
        yield
    finally:
        _scope.reset(token)


def current_scope() -> str:
    """The names of the `named_scope`s that are open: ``encoder/attention``."""
    return _scope.get()


@contextmanager
def only_scope(scope: str) -> Generator[None]:
    """Equations recorded in the block have this scope, whatever is open around it."""
    token = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(token)


def register_internal(path: str) -> None:
    """Declare a folder, or one file, whose frames are never the user's."""
    whole = os.path.abspath(path)
    _internal_prefixes.append(whole if whole.endswith(".py") else os.path.join(whole, ""))
    _is_internal.clear()


def unregister_internal(path: str) -> None:
    """Take a declaration back; ValueError for a path that was not declared."""
    _internal_prefixes.remove(path)
    _is_internal.clear()


def internal_paths() -> list[str]:
    """What is declared; the paths of folders end in a separator."""
    return list(_internal_prefixes)


register_internal(os.path.dirname(__file__))

# Neither NumPy's frames between the user's code and ours (np.sort of a traced value), nor those of the standard library
# (functools.wraps, contextlib), are the user's.
register_internal(os.path.dirname(np.__file__))
for _module in ("functools", "contextlib"):
    _internal_prefixes.append(os.path.abspath(getattr(sys.modules[_module], "__file__", "") or "?"))


def is_internal(code: CodeType) -> bool:
    """Whether a code object belongs to quire itself."""
    known = _is_internal.get(code)
    if known is None:
        file = code.co_filename
        known = file.startswith("<frozen") or any(file.startswith(p) for p in _internal_prefixes)
        _is_internal[code] = known
    return known


_forced: ContextVar[Source | None] = ContextVar("quire_source", default=None)


@contextmanager
def use_source(source: Source | None) -> Generator[None]:
    """Give the equations recorded in the block this source: passes keep the original line so."""
    previous = _forced.set(source)
    try:
        yield
    finally:
        _forced.reset(previous)


class SourceSetter:
    """Context manager for loops over equations: call it with each equation's source before binding its successor.

    Cheaper than a `use_source` block an equation; a source that is None leaves the previous one.
    """

    __slots__ = ("_token",)

    def __enter__(self) -> SourceSetter:
        self._token = _forced.set(_forced.get())
        return self

    def __call__(self, source: Source | None) -> None:
        if source is not None:
            _forced.set(source)

    def __exit__(self, *exc: object) -> None:
        _forced.reset(self._token)


def current_source(depth: int = 1) -> Source | None:
    """The position of the innermost user frame, or the one that a pass prescribes."""
    forced = _forced.get()
    if forced is not None:
        return forced
    frame: FrameType | None = sys._getframe(depth)  # pyright: ignore[reportPrivateUsage]  (no public form is as fast)
    while frame is not None:
        code = frame.f_code
        known = _is_internal.get(code)
        if known is None:
            known = is_internal(code)
        if not known:
            scope = _scope.get()
            key = (code, frame.f_lineno, scope)
            source = _interned.get(key)
            if source is None:
                source = _interned[key] = Source(code.co_filename, frame.f_lineno, code.co_qualname, scope)
            return source
        frame = frame.f_back
    return None


def stack_level() -> int:
    """The `stacklevel` with which a `warnings.warn` in the calling function names the innermost user frame."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    level = 1
    while frame is not None:
        if not is_internal(frame.f_code):
            return level
        frame = frame.f_back
        level += 1
    return 1


def where(source: Source | None) -> str:
    """The position as the end of a message: `` (at file.py:12, in f)``; empty when unknown."""
    if source is None:
        return ""
    scope = f", scope {source.scope}" if source.scope else ""
    return f" (at {source.file}:{source.line}, in {source.function}{scope})"


def reports_memory(f: F) -> F:
    """Decorator of functions in which NumPy allocates: its MemoryError becomes quire's, with the user's line."""

    @functools.wraps(f)
    def reporting(*args: Any, **kwargs: Any) -> Any:
        try:
            return f(*args, **kwargs)
        except MemoryError as error:
            out_of_memory("", error)

    return reporting  # type: ignore[return-value]


def out_of_memory(what: str, error: MemoryError) -> NoReturn:
    """Raise NumPy's "Unable to allocate" as quire's error, with the user's line.

    Raises:
        OutOfMemoryError: always.
    """
    if isinstance(error, OutOfMemoryError):
        raise error
    name = f"{what}: " if what else ""
    said = str(error) or "no memory is left"
    raise OutOfMemoryError(f"out of memory: {name}{said}{where(current_source(2))}") from None
