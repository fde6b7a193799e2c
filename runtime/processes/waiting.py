"""What a process does where it waits long for the others within a program: MPI itself would wait without a word."""

from __future__ import annotations

import sys
import threading
import time
from typing import Protocol

SECONDS = 60.0
"""How long a collective takes before the process says that it waits."""
LATE = 1.0
"""How many seconds after the start of a collective the process asks whether one of the others has ended."""


class Waiting:
    """What this process waits in, since when (`time.monotonic`); 0 where it does not wait."""

    what = ""
    since = 0.0


class World(Protocol):
    """All processes, as `watch` needs them."""

    rank: int

    def departed(self) -> int | None:
        """A process that has ended."""

    def abort(self, message: str) -> None:
        """End all processes."""


def ended(gone: int, rank: int, what: str) -> str:
    """The message of a process that waits for one that has ended."""
    return (
        f"process {gone} has ended (sys.exit, or its last line) while process {rank} waits for it at {what}: all processes "
        "must call the same functions in the same order. All processes end"
    )


def watch(world: World, seconds: float = SECONDS) -> None:
    """Look, from a thread of its own, at collectives of programs that take long.

    All processes end where one waits for another that has ended; after so many seconds the process says, once for each
    collective, that it waits.
    """

    def look() -> None:
        told = 0.0
        while True:
            time.sleep(min(LATE, seconds / 6))
            since = Waiting.since
            waited = time.monotonic() - since if since else 0.0
            if waited > LATE and (gone := world.departed()) is not None:
                world.abort(ended(gone, world.rank, f"a collective of a program ({Waiting.what})"))
            if since != told and waited > seconds:
                told = since
                sys.stderr.write(
                    f"process {world.rank} has waited {seconds:.0f} s for the others in a collective of a program "
                    f"({Waiting.what}): one of them may be busy, or have gone another way in code that depends on the process\n"
                )
                sys.stderr.flush()

    threading.Thread(target=look, name="quire-waiting", daemon=True).start()


__all__ = ["LATE", "Waiting", "World", "ended", "watch"]
