"""``dumpir --spmd``: each device's program, its collectives and why they are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quire.tools.dumpir.cli import main

SCRIPT = """\
import quire.numpy as np

def step(x, w):
    return np.tanh(x @ w)
"""


def run(capsys: Any, folder: Path, *words: str) -> tuple[int, str, str]:
    script = folder / "model.py"
    script.write_text(SCRIPT)
    status = main([f"{script}:step", "--args", "f32[8,4]", "f32[4,6]", "--color", "never", "--spmd", *words])
    out = capsys.readouterr()
    return status, out.out, out.err


def test_a_devices_program_and_its_collectives_are_shown(tmp_path: Path, capsys: Any) -> None:
    status, out, _ = run(capsys, tmp_path, "x=4,y=2", "P('x', 'y')", "P('y')")
    assert status == 0
    assert "on each device of x=4,y=2" in out
    assert "arguments: P('x', 'y'), P('y',)" in out and "results: P('x',)" in out
    assert "f32[2,2]" in out and "psum[axes=(y,)]" in out
    assert "psum[y] 48 bytes" in out and "dot_general: what it reduces is divided on y at" in out
    assert "model.py:4" in out and "total: 48 bytes a device" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x"], "expected a mesh such as x=4,y=2, got 'x'"),
        (["x=2", "Q('x')"], "expected a spec such as P('x', None), got \"Q('x')\""),
        (["x=2", "3"], "or None, got '3'"),
        (["x=2", "P()", "P()", "P()"], "the program takes 2 argument(s), got 3 specs"),
        (["x=2", "P('x', None, None)"], "has more entries than f32[8,4] dimensions"),
        (["x=2", "P('z')"], "Resource axis: z of P('z',) is not found in mesh: ('x',)"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, capsys: Any, words: list[str], message: str) -> None:
    status, _, err = run(capsys, tmp_path, *words)
    assert status == 2 and message in err
