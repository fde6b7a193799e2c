"""The line that is shown while a program is compiled."""

from __future__ import annotations

import os
import select
import sys
import time
from contextlib import contextmanager

import pytest

import quire
from quire.runtime.compile_cache import CompileCache
from quire.watching.progress import compile_progress

pty = pytest.importorskip("pty")


END = "\0"  # follows what is read: a terminal hands on what was written to it a while later, and in parts


@contextmanager
def terminal():
    """Standard error is a terminal for the block; gives a function that reads what was written to it so far."""
    master, slave = pty.openpty()
    before = sys.stderr
    with os.fdopen(slave, "w") as stream:

        def read() -> str:
            stream.write(END)
            stream.flush()
            text = ""
            while END not in text:
                assert select.select([master], [], [], 30)[0], f"the terminal hands on no more than {text!r}"
                text += os.read(master, 1 << 16).decode()
            return text.replace(END, "")  # another thread may have written more by now

        sys.stderr = stream  # a fixture could not: pytest puts its own there before the test
        try:
            yield read
        finally:
            sys.stderr = before
    os.close(master)


def until_shown(read) -> str:
    """What was written, once something was."""
    deadline = time.monotonic() + 30
    while not (text := read()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return text


def test_a_long_compile_is_shown_and_the_line_removed():
    with terminal() as read:
        with quire.config.override(compile_progress=True), compile_progress("train_step", after=0.05):
            assert "quire: compiling train_step (" in until_shown(read)
        assert read().endswith("\r\x1b[K")


def test_nothing_is_shown_of_a_short_one_or_when_it_is_off():
    with terminal() as read:
        with compile_progress("f", after=5):
            pass
        with quire.config.override(compile_progress=False), compile_progress("f", after=0.01):
            time.sleep(0.1)
        assert read() == ""


def test_the_line_is_removed_after_an_error():
    with terminal() as read:
        with (
            quire.config.override(compile_progress=True),
            pytest.raises(ValueError, match="no"),
            compile_progress("f", after=0.01),
        ):
            until_shown(read)
            raise ValueError("no")
        assert read().endswith("\r\x1b[K")


def test_one_line_is_written_to_a_file(capsys):
    with quire.config.override(compile_progress=True), compile_progress("train_step", after=0.01):
        time.sleep(1.3)
    said = capsys.readouterr().err
    assert said == "quire: compiling train_step takes longer than 0.01 s (QUIRE_COMPILE_PROGRESS=0: do not say so)\n"
    with quire.config.override(compile_progress=True), compile_progress("f", after=5):
        pass
    with quire.config.override(compile_progress=False), compile_progress("f", after=0.01):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_compiling_shows_it(monkeypatch, tmp_path):
    monkeypatch.setattr("quire.watching.progress.AFTER_SECONDS", 0.01)
    monkeypatch.setattr("quire.compiling.compiler.compile_cache", lambda: CompileCache(tmp_path))
    with terminal() as read, quire.config.override(compile_progress=True):
        quire.compile(lambda x: x * 3.5 + 1.25)(2.0)
        shown = read()
    assert "quire: compiling <lambda>" in shown
    assert shown.endswith("\r\x1b[K")
