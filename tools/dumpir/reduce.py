"""``dumpir --reduce``: the smallest program that is still wrong, still fails, or of which a command still succeeds."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from quire.backends.targets import Target, get_target
from quire.compiling.building import build
from quire.compiling.loading import load_fitting
from quire.compiling.lowering import lower_optimized, pipeline_for
from quire.compiling.request import Request
from quire.compiling.result_checks import compared, run
from quire.ir.errors import CompileError, QuireError
from quire.ir.printer import to_text
from quire.passes.compare import Difference, random_inputs
from quire.passes.manager import PassManager
from quire.runtime.devices import device_of

from .answers import Answer, count_text
from .inputs import InputError, Program
from .reducing import Case, case_of, reduced
from .scripts import script_of

MOST_TRIES = 600


def reduce_answer(
    program: Program, target: str, pipeline: str, command: str, until: str | None, folder: Path
) -> Answer:
    """Reduce a program and write ``reduced.jaxpr`` and ``reduced.py`` into a folder.

    Raises InputError where neither a command nor `until` is given, or what they ask for is not true of the program itself.
    """
    if not command and until is None:
        raise InputError(
            "--reduce: give a command ({} stands for the file), or --until wrong, crash, or a text of the error"
        )
    if command and until is not None:
        raise InputError("--reduce: give a command or --until, not both")
    values = random_inputs(program.closed.in_avals) if program.values is None else program.values
    case = case_of(program.closed, values)
    at = get_target(target)
    holds = _command(command) if command else _holds(until or "", at, pipeline)
    if not holds(case):
        what = f"the command fails for it: {command}" if command else f"it is not so of the program itself: {until}"
        raise InputError(f"--reduce: nothing to reduce in {program.name}: {what}")
    before = case.weight()
    found = reduced(case, holds, tries=MOST_TRIES)
    after = found.case.weight()
    text = to_text(found.case.closed)
    script = script_of(found.case, command or f"--until {until}", at.name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reduced.jaxpr").write_text(text + "\n", encoding="utf-8")
    (folder / "reduced.py").write_text(script, encoding="utf-8")
    lines = [
        f"{before[0]} equations of {count_text(before[1])} elements became {after[0]} of {after[1]}, {found.tries} programs "
        f"were tried; written to {folder / 'reduced.jaxpr'} and {folder / 'reduced.py'}",
        *text.splitlines()[:24],
    ]  # fmt: skip
    data = {"before": before, "after": after, "tries": found.tries, "jaxpr": text, "script": script}
    return Answer(lines, data)


def _command(command: str) -> Callable[[Case], bool]:
    def holds(case: Case) -> bool:
        with tempfile.TemporaryDirectory(prefix="quire-reduce-") as folder:
            path = Path(folder) / "candidate.jaxpr"
            path.write_text(to_text(case.closed) + "\n", encoding="utf-8")
            words = command.replace("{}", str(path)) if "{}" in command else f"{command} {path}"
            return subprocess.run(words, shell=True, capture_output=True, check=False).returncode == 0

    return holds


def _holds(until: str, target: Target, pipeline: str) -> Callable[[Case], bool]:
    def wrong(case: Case) -> bool:
        try:
            return isinstance(compared(case.closed, case.values, compiled(case, target, pipeline)), Difference)
        except (QuireError, NotImplementedError, AssertionError, MemoryError):
            return False

    def fails(case: Case) -> bool:
        try:
            lowered = _lowered(case, target, pipeline)
            build(lowered)
        except CompileError as error:
            return until == "crash" or until in str(error)
        except Exception as error:  # what a pass or a rule raises may be what is looked for
            return until != "crash" and until in f"{type(error).__name__}: {error}"
        return False

    return wrong if until == "wrong" else fails


def _lowered(case: Case, target: Target, pipeline: str) -> Any:
    request = Request(case.closed, target, "reduced", keep_unused=True)
    manager = PassManager(pipeline_for(request.program, pipeline), target=target)
    return lower_optimized(request, manager.run(request.program))


def compiled(case: Case, target: Target, pipeline: str) -> Sequence[np.ndarray[Any, Any]]:
    """The results of a case's compiled program.

    Raises:
        CompileError: the target's compiler refuses it.
    """
    device = device_of(target)
    lowered = _lowered(case, device.target, pipeline)
    _, executable = load_fitting(build(lowered), device, "reduced", lambda: lowered, lowered)
    return run(executable, lowered.kept, lowered.results, case.closed.out_avals, list(case.values))
