"""A line on the terminal while a program is being compiled for longer than a moment."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from quire.ir.config import config

AFTER_SECONDS = 2.0
_CLEAR = "\r\x1b[K"


@contextmanager
def compile_progress(name: str, after: float | None = None) -> Generator[None]:
    """For the block: after some seconds a line that says what is compiled and for how long, removed at the end.

    Only where standard error is a terminal, and `config.compile_progress` (QUIRE_COMPILE_PROGRESS) is on.
    """
    stream = sys.stderr
    if not config.options.compile_progress or stream is None or not stream.isatty():
        yield
        return
    wait = AFTER_SECONDS if after is None else after
    start, done = time.monotonic(), threading.Event()

    def show() -> None:
        shown = False
        while not done.wait(1.0 if shown else wait):
            shown = True
            stream.write(f"{_CLEAR}quire: compiling {name} ({time.monotonic() - start:.0f} s)")
            stream.flush()
        if shown:
            stream.write(_CLEAR)
            stream.flush()

    thread = threading.Thread(target=show, name="quire-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(1.0)  # a terminal that takes no output must not hold up the program
