"""Ranks that are threads of one process: each waits until the others have come to the same collective."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .communicator import Communicator, Host, RanksError, combined
from .current import as_rank


class World:
    """What the threads share.

    Attributes:
        size: how many there are.
        error: the rank that failed first, and its exception.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.error: tuple[int, BaseException] | None = None
        self._left: set[int] = set()
        self._rooms: dict[tuple[int, ...], _Room] = {}
        self._lock = threading.Lock()

    def room(self, ranks: tuple[int, ...]) -> _Room:
        """Where some ranks meet."""
        with self._lock:
            found = self._rooms.get(ranks)
            if found is None:
                found = self._rooms[ranks] = _Room(self, ranks)
                found.closed = self.error is not None or bool(self._left.intersection(ranks))
            return found

    def leave(self, rank: int, error: BaseException | None = None) -> None:
        """A rank has ended: those who wait for it, now or later, are told."""
        with self._lock:
            self._left.add(rank)
            if error is not None and self.error is None:
                self.error = (rank, error)
            for ranks, room in self._rooms.items():
                if error is not None or rank in ranks:
                    room.close()

    def reason(self, ranks: Sequence[int]) -> str:
        """Why some ranks cannot meet."""
        if self.error is not None:
            return f"rank {self.error[0]} failed: {type(self.error[1]).__name__}: {self.error[1]}"
        gone = sorted(self._left.intersection(ranks))
        return f"rank {gone[0]} has ended while others wait for it" if gone else "the ranks were stopped"


class _Room:
    """A barrier that those pass who were there when the last one came, whatever happens then."""

    def __init__(self, world: World, ranks: tuple[int, ...]) -> None:
        self.world = world
        self.ranks = ranks
        self.closed = False
        self._changed = threading.Condition()
        self._waiting = self._passed = 0
        self.slots: list[Any] = [None] * len(ranks)

    def wait(self) -> None:
        """Until all have come. Raises RanksError if one will not."""
        with self._changed:
            number = self._passed
            if not self.closed:
                self._waiting += 1
                if self._waiting == len(self.ranks):
                    self._waiting = 0
                    self._passed += 1
                    self._changed.notify_all()
            while self._passed == number and not self.closed:
                self._changed.wait()
            if self._passed == number:
                raise RanksError(self.world.reason(self.ranks))

    def close(self) -> None:
        """Nobody passes any more."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()


class ThreadCommunicator(Communicator):
    """Some threads of a world."""

    kind = "threads"

    def __init__(self, world: World, ranks: tuple[int, ...], rank: int) -> None:
        self.world = world
        self.ranks = ranks
        self.rank = rank
        self.size = len(ranks)
        self._room = world.room(ranks)
        self._groups: dict[tuple[int, ...], Communicator] = {}

    def _meet(self, what: Any, value: Any, use: Callable[[list[Any]], Any]) -> Any:
        """Show the others a value, and use those of all.

        Raises RanksError where they are at another collective, or one has ended.
        """
        room = self._room
        room.slots[self.rank] = (what, value)
        room.wait()
        slots = list(room.slots)
        other = next((i for i, s in enumerate(slots) if s[0] != what), None)
        result = None if other is not None else use([s[1] for s in slots])
        room.wait()  # nobody changes an operand before all have read it
        if other is not None:
            raise RanksError(
                f"ranks disagree on the collective: rank {self.ranks[self.rank]} is at {what}, rank {self.ranks[other]} at "
                f"{slots[other][0]}"
            )
        return result

    def reduce(self, op: str, x: Host, out: Host) -> None:
        self._meet((op, x.shape, str(x.dtype)), x, lambda parts: combined(op, parts, out))

    def all_gather(self, x: Host, out: Host) -> None:
        self._meet(("all_gather", x.shape, str(x.dtype)), x, lambda parts: np.stack(parts, out=out))

    def all_to_all(self, x: Host, out: Host) -> None:
        self._meet(
            ("all_to_all", x.shape, str(x.dtype)), x, lambda parts: np.stack([p[self.rank] for p in parts], out=out)
        )

    def reduce_scatter(self, x: Host, out: Host) -> None:
        self._meet(
            ("reduce_scatter", x.shape, str(x.dtype)), x,
            lambda parts: combined("sum", [p[self.rank, ...] for p in parts], out),
        )  # fmt: skip

    def permute(self, x: Host, out: Host, source: int | None, destination: int | None) -> None:
        def use(parts: list[Any]) -> None:
            out[...] = 0 if source is None else parts[source]

        self._meet(("permute", x.shape, str(x.dtype)), x, use)

    def broadcast(self, x: Host, out: Host, source: int) -> None:
        self._meet(("broadcast", x.shape, str(x.dtype), source), x, lambda parts: np.copyto(out, parts[source]))

    def exchange(self, value: Any, what: str) -> list[Any]:
        return self._meet(("exchange", what), value, list)

    def group(self, members: Sequence[int]) -> Communicator:
        key = tuple(members)
        found = self._groups.get(key)
        if found is None:
            ranks = tuple(self.ranks[m] for m in key)
            found = self._groups[key] = ThreadCommunicator(self.world, ranks, key.index(self.rank))
        return found

    def abort(self, message: str) -> None:
        error = RanksError(message)
        self.world.leave(self.ranks[self.rank], error)
        raise error


def run_ranks(size: int, function: Callable[[int], Any]) -> list[Any]:
    """Call a function of the rank in so many threads, each as a rank of its own; their results.

    Raises the exception of the rank that failed first.
    """
    world = World(size)
    everyone = tuple(range(size))
    results: list[Any] = [None] * size

    def run(rank: int) -> None:
        try:
            with as_rank(ThreadCommunicator(world, everyone, rank)):
                results[rank] = function(rank)
        except BaseException as error:
            world.leave(rank, error)
        else:
            world.leave(rank)

    threads = [threading.Thread(target=run, args=(i,), name=f"quire-rank-{i}") for i in range(size)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if world.error is not None:
        raise world.error[1]
    return results


__all__ = ["ThreadCommunicator", "World", "run_ranks"]
