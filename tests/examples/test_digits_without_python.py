"""The exported digits network recognises as many digits in C and in node as in Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_as_many_digits_are_recognised(tmp_path: Path) -> None:
    missing = [tool for tool in ("cc", "node") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"there is no {' and no '.join(missing)} here")
    out = subprocess.run(
        ["sh", "examples/digits_without_python.sh", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHON": sys.executable, "EPOCHS": "3"},
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
    found = dict(re.findall(r"^(\w+): ([\d.]+)% of 360", out.stdout, re.MULTILINE))
    assert set(found) == {"Python", "C", "JavaScript"}
    assert len(set(found.values())) == 1 and float(found["C"]) > 85
    objects = list(tmp_path.rglob("*_kernels.o"))
    assert objects and all(p.stat().st_size < 100_000 for p in objects)  # the weights lie in a file of their own
