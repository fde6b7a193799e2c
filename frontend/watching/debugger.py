"""The console of `quire.debug.breakpoint`: look at the values of a program that is running."""

from __future__ import annotations

import cmd
import linecache
import pprint
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, TextIO

import numpy as np

from quire.ir.avals import aval_of
from quire.ir.source import is_internal
from quire.ir.tracing import Tracer

from .. import tree_util


@dataclass(frozen=True, eq=False)
class Frame:
    """A frame of the user's program as it was when the breakpoint was recorded, without the values."""

    file: str
    line: int
    function: str
    names: Mapping[str, Any]  # the globals


def user_frames(limit: int | None, filtered: bool) -> tuple[list[Frame], list[dict[str, Any]]]:
    """The frames of the call stack, innermost first, and the local variables of each that can be shown."""
    frames: list[Frame] = []
    variables: list[dict[str, Any]] = []
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and (limit is None or len(frames) < limit):
        code = frame.f_code
        if not (filtered and is_internal(code)):
            frames.append(Frame(code.co_filename, frame.f_lineno, code.co_qualname, frame.f_globals))
            local = {} if frame.f_locals is frame.f_globals else frame.f_locals
            variables.append({k: v for k, v in local.items() if _can_be_shown(v)})
        frame = frame.f_back
    return frames, variables


def _can_be_shown(value: Any) -> bool:
    """Whether the value is a pytree whose traced leaves belong to traces that go on."""
    try:
        leaves, _ = tree_util.tree_flatten(value)
    except (TypeError, ValueError):  # keys that cannot be ordered
        return False
    return all(not isinstance(x, Tracer) or x.owner.alive for x in leaves)


class Console(cmd.Cmd):
    """Reads commands until the program is continued."""

    intro = None
    prompt = "(qdb) "

    def __init__(
        self, frames: Sequence[Frame], variables: Sequence[dict[str, Any]], stdin: TextIO | None, stdout: TextIO | None
    ) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self.frames = frames
        self.variables = variables
        self.at = 0

    def say(self, text: str) -> None:
        """Write a line."""
        self.stdout.write(text + "\n")

    def emptyline(self) -> bool:
        """An empty line does nothing, where Python's `cmd` repeats the last command."""
        return False

    def default(self, line: str) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]  (its result is used)
        """Anything that is no command is an expression."""
        return line == "EOF" or self.do_p(line)

    def _value(self, text: str) -> Any:
        frame = self.frames[self.at]
        return eval(text, dict(frame.names), self.variables[self.at])  # the user's own expression in the user's console

    def _show(self, text: str, form: Any) -> bool:
        try:
            self.say(form(self._value(text)))
        except Exception as error:
            self.say(f"*** {type(error).__name__}: {error}")
        return False

    def do_p(self, text: str) -> bool:
        """p EXPRESSION: the value of an expression of the frame's variables"""
        return self._show(text, repr)

    def do_pp(self, text: str) -> bool:
        """pp EXPRESSION: the same, over several lines"""
        return self._show(text, pprint.pformat)

    def do_args(self, _: str) -> bool:
        """args: the frame's variables with their types"""
        for name, value in self.variables[self.at].items():
            shown = aval_of(value).short() if isinstance(value, np.ndarray) else type(value).__name__
            self.say(f"{name}: {shown}")
        return False

    def do_list(self, _: str) -> bool:
        """list: the lines around the breakpoint"""
        frame = self.frames[self.at]
        for n in range(max(frame.line - 5, 1), frame.line + 6):
            text = linecache.getline(frame.file, n)
            if text:
                self.say(f"{'->' if n == frame.line else '  '} {n:4} {text.rstrip()}")
        return False

    def do_bt(self, _: str) -> bool:
        """bt: the frames, innermost first"""
        for i, frame in enumerate(self.frames):
            self.say(f"{'>' if i == self.at else ' '} {frame.file}:{frame.line} in {frame.function}")
        return False

    def _move(self, step: int) -> bool:
        if 0 <= self.at + step < len(self.frames):
            self.at += step
            frame = self.frames[self.at]
            self.say(f"> {frame.file}:{frame.line} in {frame.function}")
        else:
            self.say("*** no such frame")
        return False

    def do_up(self, _: str) -> bool:
        """up: to the frame that called this one"""
        return self._move(1)

    def do_down(self, _: str) -> bool:
        """down: back to the frame that this one called"""
        return self._move(-1)

    def do_cont(self, _: str) -> bool:
        """cont: go on with the program"""
        return True

    def do_quit(self, _: str) -> bool:
        """quit: end the program with KeyboardInterrupt"""
        raise KeyboardInterrupt("quit at quire.debug.breakpoint")

    do_l, do_w, do_where, do_u, do_d, do_c, do_q, do_a = (
        do_list, do_bt, do_bt, do_up, do_down, do_cont, do_quit, do_args,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Breakpoint:
    """What is called on the host where a breakpoint is reached."""

    frames: tuple[Frame, ...]
    stdin: TextIO | None
    stdout: TextIO | None

    __name__ = "breakpoint"

    def __call__(self, *variables: dict[str, Any]) -> None:
        console = Console(self.frames, variables, self.stdin, self.stdout)
        frame = self.frames[0]
        console.say(f"> {frame.file}:{frame.line} in {frame.function}")
        console.cmdloop()
