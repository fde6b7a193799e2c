"""Textual tests: each .jaxpr file's first line is ``// RUN: dumpir ...``, with `%s` for the file.

What it must print is told in one of two ways. Most files end in lines that begin with ``//|``: that is the whole output, and
``pytest tests/ir_files --update`` writes it (read the difference before you commit it). Where only a part matters, the
command ends in ``| filecheck %s``, and CHECK lines say which. ``not`` in front of dumpir: it must fail, and its message is
checked. dumpir runs in this process, through the function that the console script calls.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from quire.passes.base import parse_pipeline, registered_passes
from quire.tools.dumpir import main
from tests.snapshots import check

FILES = sorted(Path(__file__).parent.glob("*.jaxpr"))
MARK = "//|"


def run(command: list[str]) -> tuple[int, str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = main(command)
    return status, out.getvalue()


def command_of(path: Path) -> tuple[str, bool]:
    """The command of a file, and whether CHECK lines say what it prints."""
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("// RUN: "), "the first line is the command"
    command, bar, filecheck = first.removeprefix("// RUN: ").partition(" | ")
    assert filecheck in ("", "filecheck %s"), f"unknown command {first}"
    return command, bool(bar)


@pytest.mark.parametrize("path", FILES, ids=[f.stem for f in FILES])
def test_file(path: Path, update: bool) -> None:
    command, by_patterns = command_of(path)
    words = [str(path) if w == "%s" else w for w in shlex.split(command)]
    fails = words[0] == "not"
    words = words[1:] if fails else words
    assert words[0] == "dumpir", f"unknown command {command}"
    status, printed = run(words[1:])
    assert (status != 0) == fails, printed
    if not by_patterns:
        check(path, MARK, printed.replace(f"{path.parent}/", ""), update)
        return
    check_run = subprocess.run(
        [sys.executable, "-m", "filecheck", str(path)], input=printed, capture_output=True, text=True, check=False
    )
    assert check_run.returncode == 0, f"{check_run.stdout}{check_run.stderr}\n{printed}"


def test_every_file_says_what_to_look_at() -> None:
    for path in FILES:
        second = path.read_text(encoding="utf-8").splitlines()[1]
        assert second.startswith("// "), f"{path.name}: the second line says what to look at"


def test_every_pass_has_a_file() -> None:
    shown: set[str] = set()
    for path in FILES:
        words = shlex.split(command_of(path)[0])
        if words[0] != "not" and "--passes" in words:
            pipeline = words[words.index("--passes") + 1]
            shown |= {p.name for p in parse_pipeline(re.sub(r",?\bdefault\b", "", pipeline))}
    own = {n for n, cls in registered_passes().items() if cls.__module__.startswith("quire.passes")}
    assert own <= shown, f"no file shows {', '.join(sorted(own - shown))}"


def test_a_difference_is_told_and_accepted(tmp_path: Path) -> None:
    path = tmp_path / "a.jaxpr"
    path.write_text("// RUN: dumpir %s\n// nothing\n{ lambda ; . let in () }\n")
    with pytest.raises(AssertionError, match=r"a.jaxpr prints something else[^+]*\n(.*\n)*\+two"):
        check(path, MARK, "one\n\ntwo\n", update=False)
    check(path, MARK, "one\n\ntwo\n", update=True)
    assert path.read_text().endswith("{ lambda ; . let in () }\n\n//| one\n//|\n//| two\n")
    check(path, MARK, "one\n\ntwo\n", update=False)
