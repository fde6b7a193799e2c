"""One compiler process as the service sees it: worker.py is what runs there, and describes the frames that go both ways."""

from __future__ import annotations

import marshal
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from quire.backends.iree.paths import compiler_library

OUTPUT_TAIL = 64 * 1024
"""So much of the compiler's own output is kept, in bytes."""


class WorkerDied(Exception):
    """The worker ended: `reason` in words, `said` the end of its output, `begun`: whether it had taken the job.

    `late`: it was ended at its time limit. `killed`: the system ended it (SIGKILL), most often for its memory.
    """

    def __init__(self, reason: str, said: str, begun: bool, late: bool = False, killed: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.said, self.begun, self.late, self.killed = reason, said, begun, late, killed


class WorkerProcess:
    """One compiler process and its pipes. Used by one thread at a time."""

    def __init__(self, warm_up_flags: Sequence[str] = ()) -> None:
        script = Path(__file__).with_name("worker.py")
        self.process = subprocess.Popen(
            [sys.executable or "python3", "-I", "-S", str(script), str(compiler_library()), *warm_up_flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.stdin, self.stdout = self.process.stdin.fileno(), self.process.stdout.fileno()
        self.stderr = self.process.stderr.fileno()
        self.said = b""
        self.begun = False
        self.rss_kb = 0
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.stdout, selectors.EVENT_READ)
        self.selector.register(self.stderr, selectors.EVENT_READ)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    def run(self, job: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """Sends the job and waits for the answer; raises WorkerDied (also after killing it at the time limit)."""
        deadline = time.monotonic() + timeout
        self.said = b""
        self.begun = False
        data = marshal.dumps(dict(job))
        try:
            view = memoryview(len(data).to_bytes(8, "little") + data)
            while view:
                view = view[os.write(self.stdin, view) :]
        except OSError:
            raise self._death() from None
        self._receive(deadline, timeout)
        self.begun = True
        return marshal.loads(self._receive(deadline, timeout))

    def _receive(self, deadline: float, timeout: float) -> bytes:
        """The next frame; meanwhile keeps the end of what the compiler says."""
        received = bytearray()
        missing = 8
        while missing:
            left = deadline - time.monotonic()
            if left <= 0:
                self.kill()
                raise WorkerDied(f"did not finish within {timeout:g} s", self._tail(), True, late=True)
            for key, _ in self.selector.select(left):
                if key.fd == self.stdout:
                    part = os.read(key.fd, min(missing, 1 << 20))
                    if not part:
                        raise self._death()
                    received += part
                    missing -= len(part)
                    if not missing and len(received) == 8:
                        missing = int.from_bytes(received, "little")
                elif part := os.read(key.fd, 1 << 16):
                    self.said = (self.said + part)[-OUTPUT_TAIL:]
                else:
                    self.selector.unregister(self.stderr)
        return bytes(received[8:])

    def _death(self) -> WorkerDied:
        """After the end of the pipe: how the process ended."""
        try:
            code = self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        os.set_blocking(self.stderr, False)
        try:
            while part := os.read(self.stderr, 1 << 16):
                self.said = (self.said + part)[-OUTPUT_TAIL:]
        except OSError:  # nothing more, but a grandchild holds the pipe
            pass
        self.kill()
        if code >= 0:
            reason = f"ended its process (exit status {code})"
        else:
            known = {member.value: member.name for member in signal.Signals}
            reason = f"crashed ({known.get(-code, f'signal {-code}')})"
        return WorkerDied(reason, self._tail(), self.begun, killed=code == -signal.SIGKILL)

    def _tail(self) -> str:
        return self.said.decode("utf-8", "replace")

    def kill(self) -> None:
        """Ends the process and closes the pipes. May be called twice."""
        self.process.kill()
        self.process.wait()
        self.close()

    def close(self) -> None:
        """Closes the pipes, upon which the worker ends by itself."""
        self.selector.close()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


__all__ = ["WorkerDied", "WorkerProcess"]
