"""The examples on several devices run on simulated ones, and check themselves against one device."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(name: str, devices: int | None) -> str:
    env = {k: v for k, v in os.environ.items() if k != "QUIRE_NUM_CPU_DEVICES"}
    if devices is not None:
        env["QUIRE_NUM_CPU_DEVICES"] = str(devices)
    out = subprocess.run(
        [sys.executable, f"examples/{name}.py"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=300
    )
    assert out.returncode == 0, out.stderr
    return out.stdout


def test_digits_in_three_ways() -> None:
    out = run("digits_data_parallel", None)
    start, end = re.search(r"4 devices, loss of one device: ([\d.]+) .. ([\d.]+)", out).groups()  # pyright: ignore
    assert float(end) < 0.5 < float(start)
    found = dict(re.findall(r"(\S.*?) +loss [\d.]+, differs by at most ([\d.e+-]+)", out))
    assert set(found) == {"jit with shardings", "shard_map", "pmap"}
    assert all(float(x) <= 1e-5 for x in found.values())


@pytest.mark.parametrize(("devices", "grid"), [(1, "1x1"), (6, "2x3")])
def test_heat_on_a_grid(devices: int, grid: str) -> None:
    out = run("heat_halo", devices)
    assert f"96x96 plate on {grid} devices, 100 steps" in out
    assert float(re.search(r"gradients differ by at most ([\d.e+-]+)", out)[1]) < 1e-5  # pyright: ignore
