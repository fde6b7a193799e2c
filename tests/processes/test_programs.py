"""Programs over several devices give the same however they are run: simulated, as threads, under MPI."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import quire
from quire.ir.config import config
from quire.sharding import Mesh

from .programs import PROGRAMS
from .runner import compare

ROOT = Path(__file__).resolve().parents[2]


def mpiexec() -> str:
    """The launcher beside this Python, or the system's; the test is skipped where there is none."""
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed (pip install 'quire[mpi]')")
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        pytest.skip("mpiexec is not installed (pip install 'quire[mpi]')")
    return found


def launch(count: int, *command: str, devices: int = 1, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """Run a Python program in so many processes."""
    return subprocess.run(
        [mpiexec(), "-n", str(count), sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=timeout,
        env={**os.environ, "QUIRE_NUM_CPU_DEVICES": str(devices)},
    )  # fmt: skip


@pytest.mark.parametrize("spmd", [None, "threads", "threads:2"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_in_one_process(program, spmd):
    with config.override(num_cpu_devices=4, spmd=spmd):
        compare(*program(Mesh(np.array(quire.devices()).reshape(2, 2), ("x", "y"))))


@pytest.mark.parametrize(("what", "count", "devices"), [("programs", 2, 2), ("programs", 4, 1), ("surface", 2, 2)])
def test_under_mpi(what, count, devices):
    run = launch(count, "-m", "tests.processes.runner", what, devices=devices)
    assert run.returncode == 0, run.stderr
    outcomes = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    assert sorted(o["process"] for o in outcomes) == list(range(count)), run.stdout + run.stderr
    for outcome in outcomes:
        assert not outcome["failed"], "\n".join(f"{k}: {v}" for k, v in outcome["failed"].items())
