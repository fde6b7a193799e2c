"""Looking into compiled programs while they run: `quire.debug.print` and `quire.debug.callback`."""

from __future__ import annotations

import builtins
import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .callbacks import _check, bind_debug  # pyright: ignore[reportPrivateUsage]


def callback(callback: Callable[..., Any], *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Call a Python function for its side effect, with the values that the program computes.

    Args:
        callback: takes the arguments as NumPy arrays; what it returns is ignored.
        args, kwargs: pytrees of arrays; other leaves are passed as they are.
        ordered: keep the order of the program (here calls always do).

    Under vmap it is called once a lane; under grad and jvp with the values of the forward computation.

    Example: ``quire.debug.callback(history.append, loss)``.
    """
    _check("debug.callback", callback)
    bind_debug(callback, args, kwargs, ordered)


class _Formatter(string.Formatter):
    """Python's formatting, that complains of arguments that the format does not use."""

    def check_unused_args(self, used_args: Any, args: Any, kwargs: Any) -> None:
        unused = [i for i in range(len(args)) if i not in used_args]
        named = [k for k in kwargs if k not in used_args]
        if unused or named:
            raise ValueError(
                f"debug.print: the format does not use {', '.join([f'argument {i}' for i in unused] + named)}: write "
                "{} or {name} for each argument"
            )


_formatter = _Formatter()


@dataclass(frozen=True)
class _Print:
    """Prints its arguments by a format."""

    fmt: str

    @property
    def __name__(self) -> str:
        return f"print({self.fmt!r})"

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        builtins.print(_formatter.format(self.fmt, *args, **kwargs))


class _Anything:
    """Stands for a value whose format is checked only when it is known."""

    def __format__(self, spec: str) -> str:
        return ""

    def __getattr__(self, name: str) -> Any:
        return self

    def __getitem__(self, key: Any) -> Any:
        return self


def print(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Print values of a compiled program while it runs.

    Args:
        fmt: a format string as of `str.format`: ``"x = {}"``, ``"x = {x:.3f}"`` (not an f-string, which would be
            formatted while tracing).
        args, kwargs: the values: pytrees of arrays, or anything that can be formatted.
        ordered: keep the order of the program (here prints always do).

    Raises ValueError when the format and the arguments do not fit, already while tracing.

    Example: ``quire.debug.print("step {i}: loss {loss}", i=i, loss=loss)``.
    """
    if not isinstance(fmt, str):
        raise TypeError(f"debug.print: the first argument must be a format string, got {fmt!r}")
    try:
        _formatter.format(fmt, *(_Anything() for _ in args), **{k: _Anything() for k in kwargs})
    except (IndexError, KeyError) as error:
        raise ValueError(f"debug.print: the format {fmt!r} needs an argument that was not given: {error}") from None
    bind_debug(_Print(fmt), args, kwargs, ordered)
