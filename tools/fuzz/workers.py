"""Processes that run batches: a crash or a hang ends one of them and not the fuzz."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .program import Program

#: So much computing, of the worker and the compiler that it started, is a hang; and so many times as long on a busy machine.
SECONDS, BUSY = 240.0, 8
#: A worker is replaced after so many batches: compiled programs stay in memory.
LIFE = 60


@dataclass(frozen=True)
class Task:
    """A batch to run. `tag` is handed back with its result.

    Attributes:
        crashed: whether a process has ended with it, of which JAX may be the cause.
    """

    programs: tuple[Program, ...]
    jax: bool
    twice: bool = True
    compiled: bool = True
    tag: Any = None
    crashed: bool = False


@dataclass
class Result:
    """What became of a task: an `Outcome`, or how the worker ended ("crashed", "hung"), or its own fault."""

    task: Task
    outcome: Any = None
    ended: str = ""
    fault: str = ""


def _serve(connection: Connection, jax: bool) -> None:
    """The worker's life."""
    if jax:
        os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from quire.ir.environment import COMPILE_TIMEOUT

    os.environ.setdefault(COMPILE_TIMEOUT.name, f"{BUSY * SECONDS:.0f}")  # what a worker computes is the only clock
    import quire

    from .running import failure_of, run_batch

    while True:
        try:
            task: Task | None = connection.recv()
        except (EOFError, KeyboardInterrupt):
            return
        if task is None:
            return
        try:
            answer: tuple[Any, str] = (
                run_batch(task.programs, jax=task.jax, twice=task.twice, compiled=task.compiled),
                "",
            )
        except KeyboardInterrupt:
            return
        except BaseException as error:
            answer = None, failure_of(error)
        connection.send(answer)
        quire.clear_caches()
        if jax:
            import jax as library

            library.clear_caches()


@dataclass
class _Worker:
    process: Any
    connection: Connection
    task: Task | None = None
    since: float = 0.0
    spent: float = 0.0
    done: int = 0

    def hangs(self, seconds: float) -> bool:
        """Whether the task takes too long: by what the worker computed, which a machine that does other things puts off."""
        waited = time.monotonic() - self.since
        if waited <= seconds:
            return False
        return waited > BUSY * seconds or not computed(self.process.pid) - self.spent <= seconds


def computed(pid: int) -> float:
    """Seconds of computing of a process and of what it started; infinite where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return float("inf")
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return own + sum(c for c in (computed(int(child)) for child in children) if c < float("inf"))


@dataclass
class Pool:
    """Some workers. Tasks are given when one is free, results come as they are ready."""

    jobs: int
    jax: bool
    seconds: float = SECONDS
    workers: list[_Worker] = field(default_factory=list)

    def _start(self) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self.jax), daemon=True)
        process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self.workers.append(worker)
        return worker

    def _end(self, worker: _Worker) -> None:
        self.workers.remove(worker)
        worker.connection.close()
        if worker.process.is_alive():
            worker.process.kill()
        worker.process.join(5)

    @property
    def free(self) -> int:
        return self.jobs - sum(w.task is not None for w in self.workers)

    @property
    def busy(self) -> bool:
        return any(w.task is not None for w in self.workers)

    def give(self, task: Task) -> None:
        """Hand a task to a free worker."""
        worker = next((w for w in self.workers if w.task is None), None) or self._start()
        worker.task, worker.since, worker.spent = task, time.monotonic(), computed(worker.process.pid)
        try:
            worker.connection.send(task)
        except OSError:  # it died while it was idle
            self._end(worker)
            self.give(task)

    def results(self, timeout: float) -> list[Result]:
        """The results that come within `timeout` seconds, at least one if there is any."""
        busy = [w for w in self.workers if w.task is not None]
        ready = wait([w.connection for w in busy], timeout)
        out: list[Result] = []
        for w in busy:
            task = w.task
            assert task is not None
            if w.connection in ready:
                try:
                    outcome, fault = w.connection.recv()
                except (EOFError, OSError):
                    w.process.join(5)
                    out.append(Result(task, ended=f"crashed (exit status {w.process.exitcode})"))
                    self._end(w)
                    continue
                w.task = None
                w.done += 1
                out.append(Result(task, outcome, fault=fault))
                if w.done >= LIFE:
                    self._end(w)
            elif w.hangs(self.seconds):
                out.append(Result(task, ended=f"hung for {self.seconds:.0f} s"))
                self._end(w)
        return out

    def run(self, task: Task, deadline: float) -> Result:
        """Run one task and wait for it until `deadline` (`time.monotonic`)."""
        self.give(task)
        while (left := deadline - time.monotonic()) > 0:
            for result in self.results(min(left, 1.0)):
                if result.task is task:
                    return result
        for w in [w for w in self.workers if w.task is task]:
            self._end(w)
        return Result(task)

    def abandon(self) -> None:
        """End the workers that are busy."""
        for w in [w for w in self.workers if w.task is not None]:
            self._end(w)

    def close(self) -> None:
        """End the workers."""
        for w in list(self.workers):
            self._end(w)


def together(programs: Sequence[Program], size: int) -> list[tuple[Program, ...]]:
    """Batches of programs of one width."""
    out: list[tuple[Program, ...]] = []
    for wide in (False, True):
        same = [p for p in programs if p.x64 == wide]
        out += [tuple(same[i : i + size]) for i in range(0, len(same), size)]
    return out
