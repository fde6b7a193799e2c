"""Where programs come from: a script that compiles functions, one function of a script, textual IR."""

from __future__ import annotations

import inspect
import re
import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import quire
from quire.compiling.building import PROGRAM
from quire.compiling.compiled_function import CompiledFunction
from quire.compiling.stage_texts import TRACE, Stages
from quire.export.scripts import InputError as InputError
from quire.export.scripts import arguments_of, as_script, function_of
from quire.export.scripts import message_of as message_of
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.parser import parse
from quire.passes.base import pipeline_to_str
from quire.watching.reports import stage_sink
from quire.watching.transformations import Transformation


@dataclass(frozen=True)
class Program:
    """A program to show: what was traced or read, and how it was to be compiled."""

    name: str
    closed: ClosedJaxpr
    target: str | None = None
    donated: tuple[int, ...] = ()
    keep_unused: bool = False
    textual: bool = False
    trace_seconds: float | None = None
    values: tuple[Any, ...] | None = None  # of the arguments, where all were given as values
    names: tuple[str, ...] = ()  # of the arguments, where they are known
    out_tree: Any = None  # of the results, where it is known
    transformations: tuple[Transformation, ...] = ()  # what grad, vmap, ... did while it was traced
    pipeline: str | None = None  # the passes that the function was given (`compile(passes=...)`)


# -- textual IR -------------------------------------------------------------------------------------------------------

_SEPARATOR = re.compile(r"^//\s*-----.*$", re.MULTILINE)


def read_text(path: str) -> list[Program]:
    """The programs of a file, or of standard input for ``-``: several are separated by ``// -----`` lines.

    Raises ParseError.
    """
    if path == "-":
        text, name, shown = sys.stdin.read(), "stdin", "<stdin>"
    else:
        text, name, shown = Path(path).read_text(encoding="utf-8"), Path(path).stem, path
    programs: list[Program] = []
    start = 0
    for i, end in enumerate([*[m.start() for m in _SEPARATOR.finditer(text)], len(text)]):
        # Blank lines in front keep the file's line numbers in messages.
        chunk = "\n" * text.count("\n", 0, start) + text[start:end]
        programs.append(Program(name if i == 0 else f"{name}-{i + 1}", parse(chunk, shown), textual=True))
        start = end
    return programs


def read_module(path: str) -> Program:
    """The function ``main`` of a module of StableHLO, as text (``.mlir``) or bytecode (``.mlirbc``).

    Raises ParseError and UnsupportedError.
    """
    file = Path(path)
    found = quire.from_stablehlo(file.read_bytes() if path.endswith("bc") else file.read_text(encoding="utf-8"))
    return Program(file.stem, found.jaxpr, names=found.in_names)


def read_folder(path: str) -> Program:
    """The program of a failed compile's reproducer, or of what ``dumpir -o`` wrote: its jaxpr, or else its module.

    Raises InputError for a folder that holds neither.
    """
    folder = Path(path)
    for name in (PROGRAM, "01-jaxpr.jaxpr", "jaxpr.jaxpr", *(p.name for p in sorted(folder.glob("*jaxpr.jaxpr")))):
        if (folder / name).is_file():
            program = read_text(str(folder / name))[0]
            head = (folder / name).read_text(encoding="utf-8").partition("\n")[0]
            target = re.search(r"for target (\w+)", head)
            return replace(program, name=folder.name, target=target[1] if target else None)
    for name in ("module.mlir", "module.mlirbc"):
        if (folder / name).is_file():
            return replace(read_module(str(folder / name)), name=folder.name)
    raise InputError(f"{path} holds no program: expected {PROGRAM}, a stage's jaxpr (dumpir -o) or module.mlir")


# -- scripts ----------------------------------------------------------------------------------------------------------


def run_script(path: str, arguments: Sequence[str]) -> list[Program]:
    """Run a script and collect every function that it compiles."""
    programs: list[Program] = []
    names: dict[str, int] = {}

    def collect(stages: Stages) -> None:
        n = names[stages.name] = names.get(stages.name, 0) + 1
        name = stages.name if n == 1 else f"{stages.name}-{n}"
        target = stages.target.name
        programs.append(Program(name, stages.program, target, stages.donated, stages.keep_unused,
                                trace_seconds=stages.seconds.get(TRACE), names=stages.names,
                                out_tree=stages.out_tree, transformations=stages.transformations,
                                pipeline=None if stages.request.passes is None else stages.pipeline))  # fmt: skip

    with as_script(Path(path).absolute(), arguments), stage_sink(collect):
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as stop:
            if stop.code not in (None, 0):
                raise InputError(f"{path} ended with exit status {stop.code}") from None
    if not programs:
        raise InputError(
            f"{path} compiled no function: decorate one with @quire.compile and call it, or name a function: "
            f"dumpir {path}:FUNCTION --args ..."
        )
    return programs


def trace_function(path: str, function: str, args: Sequence[str] | None) -> Program:
    """Trace one function of a script for arguments given as types or expressions, without running it."""
    with as_script(Path(path).absolute(), ()):
        f, names = function_of(path, function)
        positional, keywords = arguments_of(args or (), names)
        if args is None:
            _check_needs_no_arguments(f, f"{path}:{function}")
        compiled: Any = f if isinstance(f, CompiledFunction) else quire.compile(f)
        traced = compiled.trace(*positional, **keywords)
        passes = traced.wishes.passes_for(traced.target)
    return Program(
        traced.fun_name, traced.jaxpr, traced.target.name, tuple(traced.donated), traced.keep_unused,
        trace_seconds=traced.traced.seconds, values=_values(positional, keywords, traced.jaxpr),
        names=traced.names, out_tree=traced.out_tree, transformations=traced.transformations,
        pipeline=None if passes is None else pipeline_to_str(passes),
    )  # fmt: skip


def _values(positional: Sequence[Any], keywords: dict[str, Any], closed: ClosedJaxpr) -> tuple[Any, ...] | None:
    """The arguments as NumPy arrays, in the program's order; None where one is a type."""
    from quire.tree_util import flatten_arrays

    leaves, _ = flatten_arrays((tuple(positional), keywords))
    if len(leaves) != len(closed.in_avals) or any(isinstance(x, quire.ShapeDtypeStruct) for x in leaves):
        return None
    try:
        return tuple(np.asarray(x, aval.dtype) for x, aval in zip(leaves, closed.in_avals))
    except (TypeError, ValueError):
        return None


def _check_needs_no_arguments(f: Any, shown: str) -> None:
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if needed:
        raise InputError(
            f"{shown} takes {', '.join(needed)}: give a type or a value for each, "
            f"as in --args {' '.join(repr('f32[8,3]') for _ in needed)}"
        )


def load(source: str, args: Sequence[str] | None, arguments: Sequence[str]) -> list[Program]:
    """The programs of dumpir's input: ``script.py``, ``script.py:function``, ``file.jaxpr``, ``file.mlir`` or ``-``."""
    path, colon, function = source.rpartition(":")
    if colon and path.endswith(".py"):
        if not Path(path).is_file():
            raise InputError(f"no file {path}")
        return [trace_function(path, function, args)]
    if Path(source).is_dir():
        return [read_folder(source)]
    if source != "-" and not Path(source).is_file():
        raise InputError(f"no file {source}")
    if source.endswith(".py"):
        if args is not None:
            raise InputError(f"--args belongs to a function: dumpir {source}:FUNCTION --args ...")
        return run_script(source, arguments)
    if source.endswith((".mlir", ".mlirbc")):
        return [read_module(source)]
    return read_text(source)


def with_target(program: Program, target: str | None) -> Program:
    """The program for another target, if one is given."""
    return program if target is None else replace(program, target=target)
