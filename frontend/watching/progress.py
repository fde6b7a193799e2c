"""A line on standard error while a program is being compiled for longer than a moment."""

from __future__ import annotations

import contextlib
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
    """For the block: after some seconds a line that says what is compiled.

    On a terminal it says for how long, and is removed at the end. Elsewhere (a pipe, a file) it is one line without control
    characters, once. Only where `config.compile_progress` (QUIRE_COMPILE_PROGRESS) is on.
    """
    stream = sys.stderr
    if not config.options.compile_progress or stream is None:
        yield
        return
    terminal = stream.isatty()
    wait = AFTER_SECONDS if after is None else after
    start, done = time.monotonic(), threading.Event()

    def show() -> None:
        shown = False
        while not done.wait(1.0 if shown else wait):
            if not terminal:
                said = (
                    f"quire: compiling {name} takes longer than {wait:g} s (QUIRE_COMPILE_PROGRESS=0: do not say so)\n"
                )
                with contextlib.suppress(OSError, ValueError):  # a pipe that nobody reads, a file that was closed
                    stream.write(said)
                    stream.flush()
                return
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
