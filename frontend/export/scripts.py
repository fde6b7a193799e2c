"""A function of a script, and its arguments, as a command line names them: ``script.py:f --args 'f32[8,3]' 'n=3'``."""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.errors import QuireError
from quire.ir.source import is_internal

from ..arrays.shape_struct import ShapeDtypeStruct


class InputError(Exception):
    """The input cannot be used as asked: the message says what to write."""


def message_of(error: Exception) -> str:
    """What a command prints of an error, with the user's line where the error does not tell it."""
    text = str(error)
    if isinstance(error, InputError | QuireError | OSError):
        return text
    line = user_line(error)
    return f"{type(error).__name__}: {text}" + (f"\n  at {line}" if line and line not in text else "")


def user_line(error: Exception) -> str:
    """The innermost line of the user's in an exception's traceback."""
    found = ""
    tb = error.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        internal = code.co_filename.startswith("<") or is_internal(code)
        if not internal and "importlib" not in code.co_filename and "runpy" not in code.co_filename:
            found = f"{code.co_filename}:{tb.tb_lineno}"
        tb = tb.tb_next
    return found


@contextlib.contextmanager
def as_script(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    """What a script sees when Python runs it; what it prints goes to standard error, apart from the output."""
    argv, first = sys.argv, sys.path[0]
    sys.argv = [str(path), *arguments]
    sys.path[0] = str(path.parent)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.argv, sys.path[0] = argv, first


class _Type:
    """``f32[8,3]`` in an expression of ``--args``: the type of an argument."""

    def __init__(self, dtype: dtypes.DType) -> None:
        self.dtype = dtype

    def __getitem__(self, shape: Any) -> ShapeDtypeStruct:
        dims = shape if isinstance(shape, tuple) else (shape,)
        return ShapeDtypeStruct(dims, self.dtype)


def evaluate(text: str, namespace: dict[str, Any]) -> Any:
    """The value of one of ``--args``: types (``f32[8,3]``, ``i32[]``) and Python expressions, also mixed.

    Raises:
        InputError: it is neither.
    """
    names = "|".join(sorted(map(re.escape, dtypes.FROM_SHORT), key=len, reverse=True))
    source = re.sub(rf"\b({names})\[\s*\]", r"\1[()]", text)
    types = {short: _Type(dtype) for short, dtype in dtypes.FROM_SHORT.items() if short != "bool"}
    if re.search(r"\bbool\[", source):
        types["bool"] = _Type(dtypes.bool_)
    try:
        return eval(source, {"np": np, "numpy": np, "quire": sys.modules["quire"], **namespace, **types})
    except Exception as error:
        raise InputError(
            f"--args {text!r}: {type(error).__name__}: {error}; write a type such as f32[8,3] or a Python expression"
        ) from error


_KEYWORD = re.compile(r"([A-Za-z_]\w*)=(?!=)(.*)", re.DOTALL)


def function_of(path: str, function: str) -> tuple[Any, dict[str, Any]]:
    """A function of a script, which is run but for what it does as a program, and the script's names. Run it `as_script`.

    Raises:
        InputError: the script has no such function.
    """
    file = Path(path).absolute()
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    f: Any = module
    for part in function.split("."):
        if not hasattr(f, part):
            known = [n for n, v in vars(f).items() if callable(v) and not n.startswith("_")]
            near = difflib.get_close_matches(part, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(known) or 'no functions'}"
            raise InputError(f"{path} has no function {function}{hint}")
        f = getattr(f, part)
    if not callable(f):
        raise InputError(f"{path}:{function} is {type(f).__name__}, not a function")
    return f, vars(module)


def arguments_of(args: Sequence[str], namespace: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call, by position and by name. Raises InputError."""
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for text in args:
        match = _KEYWORD.fullmatch(text)
        if match:
            keywords[match[1]] = evaluate(match[2], namespace)
        else:
            positional.append(evaluate(text, namespace))
    return positional, keywords
