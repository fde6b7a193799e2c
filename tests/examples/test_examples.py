"""The examples and the README's tour run as a new user would run them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from quire.ir.config import config

ROOT = Path(__file__).resolve().parents[2]


def test_digits_kmeans():
    out = subprocess.run(
        [sys.executable, "examples/digits_kmeans.py"], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert out.returncode == 0, out.stderr
    assert "1797 digits in 10 clusters" in out.stdout
    assert "the same clusters as NumPy: yes" in out.stdout
    share = float(re.search(r"agreement of the clusters with the labels: ([\d.]+)%", out.stdout)[1])
    assert share > 70


def test_the_tour_of_the_readme(capsys):
    text = (ROOT / "README.md").read_text()
    tour, devices = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(tour, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "{ lambda" in printed and "predict: 1 variants" in printed
    value, x = names["value"], np.asarray(names["x"])
    with config.override(num_cpu_devices=4):
        exec(compile(devices, "README.md", "exec"), names)
        np.testing.assert_allclose(names["value"], value, rtol=1e-6)
        np.testing.assert_allclose(names["column_sums"](names["x"]), x.sum(0), rtol=1e-6)


def test_the_readme_begins_with_the_two_commands():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert lines[3].startswith("./tools/try") and lines[4].startswith("./tools/test")
