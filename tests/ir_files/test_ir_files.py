"""Textual tests: each .jaxpr file's first line is ``// RUN: command``; the file's CHECK lines say what it prints.

`%s` is the file. ``not`` in front of dumpir: it must fail, and its message is checked. dumpir runs in this
process, through the function that the console script calls.
"""

from __future__ import annotations

import contextlib
import io
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from quire.tools.dumpir import main

FILES = sorted(Path(__file__).parent.glob("*.jaxpr"))


def run(command: list[str]) -> tuple[int, str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = main(command)
    return status, out.getvalue()


@pytest.mark.parametrize("path", FILES, ids=[f.stem for f in FILES])
def test_file(path):
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("// RUN: "), "the first line is the command"
    command, bar, check = first.removeprefix("// RUN: ").partition(" | ")
    words = [str(path) if w == "%s" else w for w in shlex.split(command)]
    fails = words[0] == "not"
    words = words[1:] if fails else words
    assert words[0] == "dumpir" and check == "filecheck %s", f"unknown command {first}"
    status, printed = run(words[1:])
    assert (status != 0) == fails, printed
    check_run = subprocess.run(
        [sys.executable, "-m", "filecheck", str(path)], input=printed, capture_output=True, text=True, check=False
    )
    assert check_run.returncode == 0, f"{check_run.stdout}{check_run.stderr}\n{printed}"


def test_there_are_files():
    assert len(FILES) >= 7
