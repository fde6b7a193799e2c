"""Python's `assert` of a traced value as a check of the program: what ``compile(checks="assert")`` makes of it.

Python asks a traced value for its truth, which is not known. Where the code that asks is that of an `assert`, the answer is
what lets the assertion pass, and a `check` equation is recorded that fails where the program computes the other. That it is
one the bytecode tells: of the two ways on from the jump, one leads to the making of an AssertionError. In ``assert a or b``
neither does for `a`, which is an error as everywhere else.

The assertion's message is an expression of the function's. It is evaluated where the assertion has failed, as Python does it,
with the program's values in place of the traced ones.
"""

from __future__ import annotations

import ast
import dis
import functools
import linecache
import re
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.checks import Site
from quire.ir.errors import AssertedError
from quire.ir.primitives import calls
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.source import Source, current_source, where
from quire.ir.tracing import Tracer, hooks

from .. import tree_util

MOST_NAMES = 4
MOST_ELEMENTS = 8
"""An array of more elements is told by its smallest and largest."""
MOST_IN_MESSAGES = 4096
"""The values that a message names are given to it if they have no more elements than this together."""
_RAISES = frozenset(("LOAD_ASSERTION_ERROR",))
_NOTHING = frozenset(("CACHE", "EXTENDED_ARG", "NOT_TAKEN", "RESUME", "NOP"))


@dataclass(frozen=True)
class _Assertion:
    """The message of an assertion: its text, its line, and the values of the names in it; the user's own comes first."""

    text: str
    source: Source | None
    shown: tuple[tuple[str, str, bool], ...]  # name, type, and whether it is told by two numbers
    message: _Message | None = None

    def __call__(self, *arrays: Any) -> str:
        own = ""
        if self.message is not None:
            split = len(arrays) - self.message.count
            own, arrays = f"{self.message(arrays[split:])}: ", arrays[:split]
        return own + self.told(arrays)

    def told(self, arrays: tuple[Any, ...]) -> str:
        """The assertion with the values of its names."""
        given, parts = iter(arrays), list[str]()
        for name, kind, ends in self.shown:
            if ends:
                low, high = next(given), next(given)
                parts.append(f"{name} = {kind} from {low} to {high}")
            else:
                value = np.asarray(next(given))
                parts.append(f"{name} = {value[()] if not value.ndim else np.array2string(value, separator=', ')}")
        return f"{self.text}{where(self.source)}: {'; '.join(parts)}" if parts else f"{self.text}{where(self.source)}"


_SLOT = object()
"""Stands for a traced value among those that a message names."""


class _Message:
    """The expression behind an assertion's comma, and what its names stood for when the function was traced."""

    def __init__(self, text: str, file: str, names: dict[str, Any], namespace: dict[str, Any]) -> None:
        self.text, self.names, self.namespace = text, names, namespace
        self.code = compile(text, file, "eval")
        leaves = [leaf for value in names.values() for leaf in tree_util.tree_leaves(value)]
        self.traced = [x for x in leaves if isinstance(x, Tracer)]
        self.count = len(self.traced)
        slots = iter([_SLOT if isinstance(x, Tracer) else x for x in leaves])
        self.names = {
            name: tree_util.tree_unflatten(tree, [next(slots) for _ in range(tree.num_leaves)])
            for name, tree in ((name, tree_util.tree_structure(value)) for name, value in names.items())
        }

    def given(self) -> list[Any]:
        """The traced values; they are the program's, and not kept."""
        traced, self.traced = self.traced, []
        return traced

    def __repr__(self) -> str:
        return self.text

    def __call__(self, arrays: tuple[Any, ...]) -> str:
        values = iter(arrays)

        def filled(leaf: Any) -> Any:
            if leaf is not _SLOT:
                return leaf
            x = np.asarray(next(values))
            return x if x.ndim else x[()]

        names = {name: tree_util.tree_map(filled, value) for name, value in self.names.items()}
        try:
            return str(eval(self.code, {**self.namespace, **names}))
        except Exception as error:  # a mistake in the message hides no failed assertion
            return f"(its message {self.text} raises {type(error).__name__}: {error})"


@functools.lru_cache(maxsize=64)
def _assertions(source: str) -> tuple[tuple[int, int, str, str], ...]:
    """Of each assertion of a file with a message that is no plain text: its lines, its text without the message, the message."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a notebook's cell
        return ()
    return tuple(
        (n.lineno, n.end_lineno or n.lineno, f"assert {ast.unparse(n.test)}", ast.unparse(n.msg))
        for n in ast.walk(tree)
        if isinstance(n, ast.Assert) and n.msg is not None and not isinstance(n.msg, ast.Constant)
    )


def _message(frame: FrameType) -> tuple[str, _Message] | None:
    """The assertion's text and its message, where it has one that is evaluated."""
    file, line = frame.f_code.co_filename, frame.f_lineno
    found = [a for a in _assertions("".join(linecache.getlines(file))) if a[0] <= line <= a[1]]
    if not found:
        return None
    _, _, text, message = max(found)
    named = {n.id for n in ast.walk(ast.parse(message, mode="eval")) if isinstance(n, ast.Name)}
    made = _Message(message, file, {n: v for n, v in frame.f_locals.items() if n in named}, frame.f_globals)
    return (text, made) if sum(aval_of(x).size for x in made.traced) <= MOST_IN_MESSAGES else None


@functools.lru_cache(maxsize=1024)
def _instructions(code: CodeType) -> tuple[tuple[int, str, Any, str], ...]:
    return tuple((i.offset, i.opname, i.argval, str(i.argrepr)) for i in dis.get_instructions(code))


def needed_truth(frame: FrameType) -> bool | None:
    """What lets the assertion pass whose condition a frame has just asked for; None where it is no assertion."""
    found = _instructions(frame.f_code)
    place = {offset: i for i, (offset, *_) in enumerate(found)}
    i = place.get(frame.f_lasti)
    if i is None:
        return None
    if found[i][1] == "TO_BOOL":
        i = _next(found, i + 1)
    _, name, target, _ = found[i]
    if "IF_TRUE" not in name and "IF_FALSE" not in name:
        return None
    jumps_if = "IF_TRUE" in name
    if _fails(found, _next(found, i + 1)):
        return jumps_if
    if _fails(found, _next(found, place.get(target, len(found)))):
        return not jumps_if
    return None


def _next(found: tuple[tuple[int, str, Any, str], ...], i: int) -> int:
    while i < len(found) and found[i][1] in _NOTHING:
        i += 1
    return i


def _fails(found: tuple[tuple[int, str, Any, str], ...], i: int) -> bool:
    if i >= len(found):
        return False
    _, name, _, shown = found[i]
    return name in _RAISES or (name == "LOAD_COMMON_CONSTANT" and "AssertionError" in shown)


def asserted(tracer: Tracer, frame: FrameType) -> bool | None:
    """Record the check of an assertion, and give the truth that lets it pass; None where the frame asks for another reason."""
    if tracer.concrete() is not None or tracer.aval.shape:
        return None
    truth = needed_truth(frame)
    if truth is None:
        return None
    holds: Any = tracer if dtypes.is_bool(tracer.aval.dtype) else ew.ne(tracer, np.zeros((), tracer.aval.dtype))
    code = ew.select_n(holds, *((np.int32(1), np.int32(0)) if truth else (np.int32(0), np.int32(1))))
    text = " ".join(linecache.getline(frame.f_code.co_filename, frame.f_lineno).split()) or "assert"
    found = _message(frame)
    text, message = (text, None) if found is None else found
    shown, arrays = _values(text, frame)
    if message is not None:
        arrays += message.given()
    site = Site(AssertedError, _Assertion(text, current_source(), shown, message), len(arrays))
    calls.check_p.bind(code, *arrays, sites=(site,), debug=False)
    return truth


def _values(text: str, frame: FrameType) -> tuple[tuple[tuple[str, str, bool], ...], list[Any]]:
    """The arrays of the frame that the text names."""
    shown: list[tuple[str, str, bool]] = []
    arrays: list[Any] = []
    for name in dict.fromkeys(re.findall(r"(?<![\w.])[A-Za-z_]\w*", text.split("#")[0])):
        x = frame.f_locals.get(name)
        if not isinstance(x, Tracer | np.ndarray) or len(shown) == MOST_NAMES:
            continue
        aval = aval_of(x)
        if aval.size <= MOST_ELEMENTS:
            shown.append((name, aval.short(), False))
            arrays.append(x)
        elif not dtypes.is_complex(aval.dtype) and aval.dtype != dtypes.float0:
            axes = tuple(range(aval.ndim))
            value: Any = ew.convert_element_type(x, np.int32) if dtypes.is_bool(aval.dtype) else x
            shown.append((name, aval.short(), True))
            arrays += [rd.reduce_min(value, axes), rd.reduce_max(value, axes)]
    return tuple(shown), arrays


hooks.asserted = asserted
