"""Processes of their own, one for each workload and library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .workload import Unavailable, Workload

_LAUNCH = (
    "import sys; sys.path.insert(0, sys.argv[1]); from bench.child import main; del sys.path[0]; main(*sys.argv[2:])"
)
TIMEOUT = 300.0
FILLED_TOGETHER = 25


def prepare(libraries: Sequence[str], folder: str) -> None:
    """Import the libraries once, so that the folder holds their bytecode: packages are installed with theirs."""
    for library in libraries:
        subprocess.run([sys.executable, "-c", f"import {library}"], env=_environment(folder, folder), check=True)


def _environment(folder: str, cache: str) -> dict[str, str]:
    environment = dict(os.environ, JAX_PLATFORMS="cpu", QUIRE_CACHE="1", QUIRE_CACHE_DIR=cache)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = os.path.join(folder, "bytecode")
    return environment


def fill(entries: Sequence[Workload], folder: str, cache: str) -> None:
    """Compile the workloads' programs of quire into the cache, in one process.

    What fails there fails again, and is told, where it is measured.
    """
    for i in range(0, len(entries), FILLED_TOGETHER):
        _run("fill", entries[i : i + FILLED_TOGETHER], "quire", folder, cache)


def in_new_process(kind: str, entry: Workload, library: str, folder: str, cache: str) -> dict[str, Any]:
    """What `child.KINDS[kind]` finds for a workload in a new process.

    Args:
        folder: holds what all processes share (see `prepare`).
        cache: the folder of quire's programs.

    Raises:
        Unavailable: the library lacks what the workload needs, or the system what is measured.
        RuntimeError: the process failed; the message is its last line.
    """
    (found,) = _run(kind, [entry], library, folder, cache)
    if "unavailable" in found:
        raise Unavailable(found["unavailable"])
    return found


def _run(kind: str, entries: Sequence[Workload], library: str, folder: str, cache: str) -> list[dict[str, Any]]:
    tools = str(Path(__file__).resolve().parents[1])
    command = [sys.executable, "-c", _LAUNCH, tools, kind, library, *(e.title for e in entries)]
    done = subprocess.run(command, env=_environment(folder, cache), capture_output=True, text=True, timeout=TIMEOUT)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1][:300])
    return [json.loads(line) for line in done.stdout.splitlines()[-len(entries) :]]
