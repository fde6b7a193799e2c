"""Looking into compiled programs while they run: print, log, callback and breakpoint; follows `jax.debug`."""

from __future__ import annotations

import builtins
import logging
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quire.ir.avals import aval_of
from quire.ir.sharding import Sharding
from quire.ir.tracing import Tracer
from quire.runtime.array import Array

from .absent_names import module_getattr
from .compiling.tracing import inspected
from .watching.callbacks import _check, bind_debug  # pyright: ignore[reportPrivateUsage]
from .watching.sharding_pictures import picture


def _options_first(
    name: str, f: Callable[..., None], args: Any, kwargs: dict[str, Any], **options: Any
) -> Callable[..., None]:
    """The function of the second call of ``print(ordered=True)("x: {}", x)``; TypeError for arguments in the first."""
    if args or kwargs:
        raise TypeError(
            f"{name} received unexpected arguments in the two-call form, {args or ''}{kwargs or ''}: its first call takes options "
            f"alone, ordered= and partitioned=, and its second call what is shown: {name}(ordered=True)(...)"
        )

    def second(first: Any, *rest: Any, **named: Any) -> None:
        f(first, *rest, keywords=named, **options)

    return second


def callback(
    callback: Callable[..., Any] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Callable[..., None] | None:
    """Call a Python function for its side effect, with the values that the program computes.

    Args:
        callback: takes the arguments as NumPy arrays; what it returns is ignored. Without it the result is a function that takes
            it and its arguments, under these options: ``callback(ordered=True)(f, x)``, where `x` may have any name.
        args, kwargs: pytrees of arrays; other leaves are passed as they are.
        ordered: keep the order of the program (here calls always do).
        partitioned: must be False.

    Under vmap it is called once a lane; under grad and jvp with the values of the forward computation.

    Raises:
        TypeError: `callback` is not a function.
        NotImplementedError: `partitioned` is true.

    Follows `jax.debug.callback`.

    Example: ``quire.debug.callback(history.append, loss)``.
    """
    if callback is None:
        return _options_first("debug.callback", _callback, args, kwargs, ordered=ordered, partitioned=partitioned)
    return _callback(callback, *args, keywords=kwargs, ordered=ordered, partitioned=partitioned)


def _callback(
    callback: Callable[..., Any], *args: Any, keywords: dict[str, Any], ordered: bool, partitioned: bool
) -> None:
    _check("debug.callback", callback)
    if partitioned:
        raise NotImplementedError("debug.callback: partitioned=True is not possible: programs are not partitioned")
    bind_debug(callback, args, keywords, ordered)


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


def _print_options() -> tuple[tuple[str, Any], ...]:
    """NumPy's options for printing where a program is traced: the thread of a callback has others."""
    return tuple((k, v) for k, v in np.get_printoptions().items() if isinstance(v, bool | int | float | str))


@dataclass(frozen=True)
class _Print:
    """Prints its arguments by a format."""

    fmt: str
    options: tuple[tuple[str, Any], ...] = field(default_factory=_print_options)

    @property
    def __name__(self) -> str:
        return f"print({self.fmt!r})"

    def formatted(self, *args: Any, **kwargs: Any) -> str:
        """The line."""
        with np.printoptions(**dict(self.options)):
            return _formatter.format(self.fmt, *args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        builtins.print(self.formatted(*args, **kwargs))


class Anything:
    """Stands for a value whose format is checked only when it is known."""

    def __format__(self, spec: str) -> str:
        return ""

    def __getattr__(self, name: str) -> Any:
        return self

    def __getitem__(self, key: Any) -> Any:
        return self


@dataclass(frozen=True)
class _Log(_Print):
    """Logs its arguments by a format."""

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        logging.getLogger("quire.debug").info(self.formatted(*args, **kwargs))


def print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Callable[..., None] | None:
    """Print values of a compiled program while it runs.

    Args:
        fmt: a format string as of `str.format`: ``"x = {}"``, ``"x = {x:.3f}"`` (not an f-string, which would be
            formatted while tracing). Without it the result is a function that takes it and the values, under these options:
            ``print(ordered=True)("x = {}", x)``.
        args, kwargs: the values: pytrees of arrays, or anything that can be formatted.
        ordered: keep the order of the program (here prints always do).
        partitioned: must be False.
        skip_format_check: do not check the format while tracing.

    Arrays are printed by NumPy's options (`numpy.printoptions`) of where the program is traced. Raises ValueError when the
    format and the arguments do not fit, already while tracing. Follows `jax.debug.print`.

    Example:
        >>> import quire
        >>> @quire.compile
        ... def f(x):
        ...     quire.debug.print("x is {x}", x=x)
        ...     return x
        >>> _ = f(2.0)
        x is 2.0
    """
    options = {"ordered": ordered, "partitioned": partitioned, "skip_format_check": skip_format_check}
    if fmt is None:
        return _options_first("debug.print", _print, args, kwargs, **options)
    return _print(fmt, *args, keywords=kwargs, **options)


def _print(
    fmt: str, *args: Any, keywords: dict[str, Any], ordered: bool, partitioned: bool, skip_format_check: bool
) -> None:
    _check_format("debug.print", fmt, args, keywords, partitioned, skip_format_check)
    bind_debug(_Print(fmt), args, keywords, ordered)


def log(
    fmt: str,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> None:
    """Log values of a compiled program, at level INFO of the logger ``quire.debug``; see `print` (`jax.debug.log`).

    Example: ``quire.debug.log("loss {}", loss)``.
    """
    _check_format("debug.log", fmt, args, kwargs, partitioned, skip_format_check)
    bind_debug(_Log(fmt), args, kwargs, ordered)


def _check_format(name: str, fmt: Any, args: Any, kwargs: Any, partitioned: bool, skip: bool) -> None:
    if partitioned:
        raise NotImplementedError(f"{name}: partitioned=True is not possible: programs are not partitioned")
    if not isinstance(fmt, str):
        raise TypeError(f"{name}: the first argument must be a format string, got {fmt!r}")
    if skip:
        return
    try:
        _formatter.format(fmt, *(Anything() for _ in args), **{k: Anything() for k in kwargs})
    except (IndexError, KeyError) as error:
        raise ValueError(f"{name}: the format {fmt!r} needs an argument that was not given: {error}") from None


def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    **kwargs: Any,
) -> None:
    """Stop a program where it comes to this point, and look at its values in a console (`jax.debug.breakpoint`).

    The commands are those of Python's debugger: ``p`` and ``pp`` show an expression of the variables around the
    breakpoint, ``list``, ``bt``, ``up`` and ``down`` walk the frames, ``args`` lists the variables, ``cont`` goes on,
    ``quit`` ends the program, ``help`` names them. It stops as often as the point is reached: once an iteration of a
    loop.

    Args:
        filter_frames: leave quire's own frames out.
        num_frames: no more than so many frames, from the innermost.
        backend: None or "cli".
        ordered: keep the order of the program (here it always is).
        kwargs: `stdin` and `stdout`: where to read commands and write answers.

    Raises:
        ValueError: `backend` is neither None nor "cli".
        TypeError: there is a keyword argument other than these.

    Example: ``quire.debug.breakpoint()``.
    """
    from .watching.debugger import Breakpoint, user_frames

    if backend not in (None, "cli"):
        raise ValueError(f'debug.breakpoint: backend must be None or "cli", got {backend!r}')
    unknown = sorted(set(kwargs) - {"stdin", "stdout"})
    if unknown:
        raise TypeError(f"debug.breakpoint: unknown argument {unknown[0]!r}; the console takes stdin and stdout")
    frames, variables = user_frames(num_frames, filter_frames)
    bind_debug(Breakpoint(tuple(frames), kwargs.get("stdin"), kwargs.get("stdout")), variables, {}, ordered)


# -- shardings --------------------------------------------------------------------------------------------------------


def visualize_sharding(
    shape: Sequence[int], sharding: Sharding, *, use_color: bool = True, scale: float = 1.0, min_width: int = 9,
    max_width: int = 80, color_map: Any = None,
) -> None:  # fmt: skip
    """Print which devices hold which part of an array, as boxes (`jax.debug.visualize_sharding`).

    Args:
        shape: of one or two dimensions; ValueError otherwise.
        sharding: how the array is divided.
        use_color, color_map: without effect: the boxes have no colours.
        scale: of the whole picture.
        min_width, max_width: of a box.
    """
    builtins.print(picture(tuple(shape), sharding, scale, min_width, max_width))


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """Print which devices hold which part of an array; options are those of `visualize_sharding`.

    Raises:
        ValueError: the array has not one or two dimensions.
        NotImplementedError: the array is a value of a loop, a branch or a transformation that is being traced.

    Follows `jax.debug.visualize_array_sharding`.
    """
    inspect_array_sharding(arr, callback=lambda sharding: visualize_sharding(aval_of(arr).shape, sharding, **kwargs))


def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], None]) -> None:
    """Call a function with the sharding of an array (`jax.debug.inspect_array_sharding`).

    Of a value in a compiled function it is called each time the function is compiled, with what the partitioner gives the value.

    Raises:
        NotImplementedError: the array is a value of a loop, a branch or a transformation that is being traced.
        TypeError: it is no array.
    """
    if isinstance(value, Tracer):
        asked = inspected.get()
        if asked is None or value.owner.parent is not None:
            raise NotImplementedError(
                f"debug.inspect_array_sharding: {value.aval.short()} is a value of {value.owner.name}, of which many may be made: "
                "ask for values of the compiled function itself, its arguments and results among them; along axes of type "
                "Explicit quire.typeof(x).sharding says it anywhere"
            )
        asked.append((value.variable, callback))
        return
    if not isinstance(value, Array):
        raise TypeError(f"debug.inspect_array_sharding: expected an array, got {value!r}")
    callback(value.sharding)


__getattr__ = module_getattr("quire.debug", globals())
