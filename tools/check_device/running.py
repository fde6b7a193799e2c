"""Each function and each measure in a process of its own, with a time limit: a driver may crash, hang, or lose its device."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from typing import Any

from .functions import Outcome, outcome
from .measures import Measured, measured

#: What a child prints before its result: drivers print, too.
MARK = "check_device:"


def function_outcome(name: str, target: str, seconds: float, *, compile_only: bool = False) -> Outcome:
    """What becomes of a function of the table in a process of its own, within so many seconds."""
    found = _child(["function", target, name, "compile" if compile_only else "run"], seconds)
    return Outcome(**found) if isinstance(found, dict) else Outcome(name, *_failure(found, seconds))


def measure_outcome(name: str, target: str, library: str, small: bool, seconds: float) -> Measured:
    """A measure in a process of its own, by "quire", "torch" or "jax"."""
    found = _child(["measure", target, name, library, "small" if small else "whole"], seconds)
    return Measured(**found) if isinstance(found, dict) else Measured(name, library, error=_failure(found, seconds)[1])


def _failure(found: str | None, seconds: float) -> tuple[Any, str]:
    return ("too slow", f"no result within {seconds:.0f} s") if found is None else ("error", found)


def _child(arguments: list[str], seconds: float) -> dict[str, Any] | str | None:
    """What a child gives, or how it died, or None past the time limit."""
    command = [sys.executable, "-m", "quire.tools.check_device.running", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if lines:
        return json.loads(lines[-1].removeprefix(MARK))
    ended = (
        f"the process ended by signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
    )
    return f"{ended}: {' '.join(done.stderr.split())[-300:]}"


def _main(arguments: list[str]) -> None:
    kind, target, name, *rest = arguments
    if kind == "function":
        found: Any = outcome(name, target, compile_only=rest == ["compile"])
    else:
        found = measured(name, target, rest[0], small=rest[1] == "small")
    print(MARK + json.dumps(dataclasses.asdict(found)), flush=True)


if __name__ == "__main__":
    _main(sys.argv[1:])
