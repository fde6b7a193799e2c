"""Processes that lower the programs of commits, and what they leave in the store."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .child import BEGIN, Job
from .programs import GROUPS, ROOT, TOOLS
from .store import Result, Store, chosen, environment, folder_of, forget_oldest
from .trees import Tree, digest_of

_STDERR = 4000


class BrokenTreeError(RuntimeError):
    """The quire of a commit cannot be imported."""


@dataclass
class Side:
    """One commit with its results.

    Attributes:
        seconds: the wall time of its processes; 0 where all was in the store.
    """

    tree: Tree
    target: str
    stores: Mapping[str, Store]
    seconds: float = 0.0

    def results(self, only: Sequence[str]) -> dict[str, Result]:
        """What its programs gave, in order, of those that are chosen."""
        named = {n: store for store in self.stores.values() for n in chosen(store.names() or (), only)}
        return {n: found for n, store in named.items() if (found := store.get(n))}


def side_of(tree: Tree, target: str, root: Path) -> Side:
    """A commit with the folders of its results."""
    machine = environment()
    stores = {
        group.name: Store(folder_of(root, tree.digest, target, [machine, digest_of(list(group.files), ROOT)]))
        for group in GROUPS
    }
    return Side(tree, target, stores)


@dataclass
class _Work:
    """One part of a commit's programs, lowered by one process after the other if they crash."""

    side: Side
    job: Job
    begun: str | None = None

    def run(self) -> None:
        with tempfile.TemporaryDirectory(prefix="quire-replay-") as folder:
            while not self._run_once(Path(folder)):
                pass

    def _run_once(self, folder: Path) -> bool:
        """Whether the part is done; a program at which the process ends has that as its result."""
        code = "import sys; sys.path[:0] = sys.argv[1:]; from replay.child import main; main()"
        self.begun = None
        command = [sys.executable, "-c", code, str(TOOLS), str(ROOT)]
        with (
            open(folder / "stderr", "w+b") as errors,
            subprocess.Popen(
                command, env=_environment(folder), cwd=folder, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            ) as process,
        ):  # fmt: skip
            assert process.stdin and process.stdout
            process.stdin.write(self.job.to_json())
            process.stdin.close()
            for line in process.stdout:
                if line.startswith(BEGIN):
                    self.begun = line.removeprefix(BEGIN).rstrip("\n")
            status = process.wait()
            errors.seek(0)
            said = errors.read().decode(errors="replace")[-_STDERR:].strip()
        if status == 0:
            return True
        store = next((s for s in self.side.stores.values() if self.begun in (s.names() or ())), None)
        if self.begun is None or store is None or store.has(self.begun):
            raise BrokenTreeError(f"the programs of {self.side.tree.name} cannot be lowered:\n{said}")
        store.put(Result(self.begun, {}, f"the process ended with status {status}"))
        return False


def _environment(folder: Path) -> dict[str, str]:
    """The user's, without what changes programs; nothing is compiled, so no compiler is started."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("QUIRE_", "PYTHON"))}
    return {**kept, "QUIRE_EARLY_COMPILER": "0", "QUIRE_CACHE": "0", "QUIRE_CACHE_DIR": str(folder)}


def lower(sides: Sequence[Side], only: Sequence[str], jobs: int, told: Callable[[str], None]) -> None:
    """Lower what is not in the store, in so many processes at once.

    Raises:
        BrokenTreeError: a commit's quire cannot be imported.
    """
    for side in sides:
        work = _work(side, only, jobs)
        if not work:
            continue
        told(f"lowering under {side.tree.name} ...")
        start = time.perf_counter()
        failed: list[BaseException] = []

        def run(part: _Work, failed: list[BaseException] = failed) -> None:
            try:
                part.run()
            except BaseException as error:  # is raised where the process was started
                failed.append(error)

        threads = [threading.Thread(target=run, args=(part,)) for part in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        side.seconds = time.perf_counter() - start
        if failed:
            raise failed[0]


def names_of(side: Side) -> list[str]:
    """The names of a commit's programs, in order; nothing is lowered.

    Raises:
        BrokenTreeError: its quire cannot be imported.
    """
    if any(store.names() is None for store in side.stores.values()):
        stores = {name: str(store.folder) for name, store in side.stores.items()}
        _Work(side, Job(str(side.tree.root), side.tree.packages, side.target, stores, part=(0, 0))).run()
    return [n for store in side.stores.values() for n in store.names() or ()]


def _work(side: Side, only: Sequence[str], jobs: int) -> list[_Work]:
    missing = {name: str(store.folder) for name, store in side.stores.items() if store.missing(only)}
    job = Job(str(side.tree.root), side.tree.packages, side.target, missing, tuple(only))
    return [_Work(side, replace(job, part=(i, jobs))) for i in range(jobs)] if missing else []


def tidy(root: Path, sides: Sequence[Side]) -> None:
    """Note that the results of these commits were used, and forget those that have not been for longest."""
    for side in sides:
        for store in side.stores.values():
            if store.folder.parent.is_dir():
                os.utime(store.folder.parent)
    forget_oldest(root)
