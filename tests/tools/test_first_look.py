"""`./tools/try` ends within a screen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from quire.tools import first_look

ROOT = Path(__file__).resolve().parents[2]


def test_one_function_on_a_screen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("iree.compiler")
    monkeypatch.chdir(ROOT)
    assert first_look.main(["examples/digits_kmeans.py:step", "--args", "f32[1797,64]", "f32[10,64]"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 20 < len(lines) <= 40 and all(len(line) <= 130 for line in lines)
    text = "\n".join(lines)
    assert "1. traced: 24 equations" in text and "reduce_sum[axes=(1,)] c" in text
    assert "instructions (--stage code)" in text and " 0 instructions" not in text and "plan of 0 steps" not in text
    assert "dot_general at digits_kmeans.py:33: kernel gemm_" in text
    # What it says to type next is there.
    command = next(line for line in lines if "--compare" in line).partition("#")[0].strip()
    asked = command.replace(".venv/bin/dumpir", f"{sys.executable} -m quire.tools.dumpir").replace(
        "--compare", "--list-stages"
    )
    assert "optimized" in subprocess.run(asked, shell=True, capture_output=True, text=True, check=True).stdout
    assert all((ROOT / word).is_file() for word in text.replace(";", " ").split() if word.startswith("docs/"))
    script = (ROOT / "tools" / "try").read_text(encoding="utf-8")
    assert "quire.tools.first_look examples/digits_kmeans.py:step" in script


def test_equations_are_one_line_each() -> None:
    text = "{ lambda ; a:f32[]. let\n    b:f32[] = p[\n      x=1\n    ] a\n    c:f32[] = neg b\n  in (c,) }"
    assert first_look.equations(text) == ["b:f32[] = p[ x=1 ] a", "c:f32[] = neg b"]
