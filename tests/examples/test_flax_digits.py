"""The flax example learns, on quire, where flax is installed."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_flax_learns_the_digits() -> None:
    if importlib.util.find_spec("flax") is None:
        pytest.skip("flax is not installed here: ./tools/test-clients makes an environment with it")
    out = subprocess.run(
        [sys.executable, "examples/flax_digits.py"], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert out.returncode == 0, out.stderr
    assert "answered by quire" in out.stdout
    reached = [float(x) for x in re.findall(r"accuracy ([\d.]+)%", out.stdout)]
    assert reached[-1] > 93 and reached[-1] > reached[0]
