"""Where equations come from, for interpreters that hand it on (`jax.extend.source_info_util`)."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

from quire.ir import source
from quire.ir.jaxpr import SourceInfo
from quire.ir.source import Source, current_source, use_source

from ..absent_names import module_getattr


class NameStack(str):
    """The names of the scopes around an equation, as a text: ``encoder/attention``."""

    __slots__ = ()

    def extend(self, name: str) -> NameStack:
        """This stack with a name more."""
        return NameStack(f"{self}/{name}" if self else name)

    def __add__(self, other: str) -> NameStack:
        return NameStack(other) if not self else NameStack(f"{str(self)}/{other}") if other else self


def current() -> SourceInfo:
    """The user's line that is being run."""
    return SourceInfo(current_source(2))


def new_source_info() -> SourceInfo:
    """Information that says nothing."""
    return SourceInfo(None)


def new_name_stack(name: str = "") -> NameStack:
    """A stack of one name, or of none."""
    return NameStack(name)


def current_name_stack() -> NameStack:
    """The scopes that are open."""
    return NameStack(source.current_scope())


@contextlib.contextmanager
def user_context(traceback: Source | None, *, name_stack: Any = None) -> Generator[None]:
    """For the block, equations are recorded as of that place: an equation's ``source_info.traceback``."""
    if isinstance(traceback, Source):
        with use_source(traceback):
            yield
    else:
        yield


@contextlib.contextmanager
def extend_name_stack(name: str) -> Generator[NameStack]:
    """A scope of that name for the block, as `named_scope`."""
    with source.named_scope(name):
        yield current_name_stack()


@contextlib.contextmanager
def set_name_stack(name_stack: str) -> Generator[None]:
    """For the block the scopes are these."""
    with source.only_scope(str(name_stack)):
        yield


def reset_name_stack() -> Any:
    """For the block there are no scopes."""
    return set_name_stack("")


def transform_name_stack(name: str) -> Any:
    """A scope for what a transformation does."""
    return extend_name_stack(name)


def summarize(source_info: SourceInfo, num_frames: int = 1) -> str:
    """The place in words."""
    return str(source_info.source) if source_info.source else "unknown"


def register_exclusion(path: str) -> None:
    """Frames of files below the path are not the user's."""
    source.register_internal(path)


__all__ = [
    "NameStack", "SourceInfo", "current", "current_name_stack", "extend_name_stack", "new_name_stack", "new_source_info",
    "register_exclusion", "reset_name_stack", "set_name_stack", "summarize", "transform_name_stack", "user_context",
]  # fmt: skip

__getattr__ = module_getattr("quire.extend.source_info_util", globals())
