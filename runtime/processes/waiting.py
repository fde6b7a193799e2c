"""A word where a process waits long for the others within a program: MPI itself would wait without one."""

from __future__ import annotations

import sys
import threading
import time

SECONDS = 60.0
"""How long a collective takes before the process says that it waits."""


class Waiting:
    """What this process waits in, since when (`time.monotonic`); 0 where it does not wait."""

    what = ""
    since = 0.0


def watch(rank: int, seconds: float = SECONDS) -> None:
    """Say, from a thread of its own, when a collective of a program takes longer than so many seconds; once for each."""

    def look() -> None:
        told = 0.0
        while True:
            time.sleep(seconds / 6)
            since = Waiting.since
            if since and since != told and time.monotonic() - since > seconds:
                told = since
                sys.stderr.write(
                    f"process {rank} has waited {seconds:.0f} s for the others in a collective of a program ({Waiting.what}): one "
                    "of them may have ended (sys.exit), be busy, or have gone another way in code that depends on the process\n"
                )
                sys.stderr.flush()

    threading.Thread(target=look, name="quire-waiting", daemon=True).start()


__all__ = ["Waiting", "watch"]
