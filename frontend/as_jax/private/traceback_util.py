"""`jax._src.traceback_util`: whose frames are left out of tracebacks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, MutableSequence
from types import FrameType
from typing import Any, TypeVar

from quire.ir import source
from quire.watching.tracebacks import user_boundary

C = TypeVar("C", bound=Callable[..., Any])


def register_exclusion(path: str) -> None:
    """Leave the frames of a file, or of a folder's files, out of tracebacks and of the lines of equations."""
    source.register_internal(path)


def include_frame(frame: FrameType) -> bool:
    """Whether tracebacks show a frame."""
    return not source.is_internal(frame.f_code)


def include_filename(filename: str) -> bool:
    """Whether tracebacks show the frames of a file."""
    return not any(filename.startswith(p) for p in source.internal_paths())


def api_boundary(fun: C, repro_api_name: str | None = None, repro_user_func: bool = False) -> C:
    """Decorator of functions that call the user's: exceptions leave without the frames that are left out."""
    return user_boundary(fun)


class _Paths(MutableSequence[str]):
    """The list of what is left out; flax adds and removes paths as it goes."""

    def __getitem__(self, index: Any) -> Any:
        return source.internal_paths()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError("jax._src.traceback_util._exclude_paths: append and remove paths")

    def __delitem__(self, index: Any) -> None:
        source.unregister_internal(source.internal_paths()[index])

    def __len__(self) -> int:
        return len(source.internal_paths())

    def __iter__(self) -> Iterator[str]:
        return iter(source.internal_paths())

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) and _declared(value) in source.internal_paths()

    def insert(self, index: int, value: str) -> None:
        """Add a path; the order is of no importance."""
        source.register_internal(value)

    def remove(self, value: str) -> None:
        """Take a path off; ValueError for one that is not there."""
        source.unregister_internal(_declared(value))


def _declared(path: str) -> str:
    whole = os.path.abspath(path)
    return whole if whole.endswith(".py") else os.path.join(whole, "")


_exclude_paths = _Paths()
