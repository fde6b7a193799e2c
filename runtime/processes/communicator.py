"""What ranks communicate by: an interface with three implementations (one rank, threads, MPI)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

Host = np.ndarray[Any, Any]

COMBINE: dict[str, Callable[..., Any]] = {"sum": np.add, "max": np.maximum, "min": np.minimum}
# Sums of many numbers of 16 bits are taken in 32.
_WIDER = {np.dtype(np.float16): np.float32, np.dtype(ml_dtypes.bfloat16): np.float32}


class RanksError(RuntimeError):
    """Ranks that take different ways, or of which one failed while others waited for it."""


class Communicator(ABC):
    """Some ranks, of which this is one. All of them call the same functions in the same order.

    Operands and results are C-contiguous NumPy arrays of the same dtype; the results are written in place, and share no
    memory with the operands. `n` stands for the number of ranks.

    Attributes:
        rank: the number of this one.
        size: how many there are.
        ranks: the number of each in the whole.
    """

    rank: int
    size: int
    ranks: tuple[int, ...]
    kind: ClassVar[str] = ""

    @abstractmethod
    def reduce(self, op: str, x: Host, out: Host) -> None:
        """The operands of all ranks combined by ``sum``, ``max`` or ``min``; every rank gets it."""

    @abstractmethod
    def all_gather(self, x: Host, out: Host) -> None:
        """The operands of all ranks along dimension 0 of `out`, which has the shape (n, *x.shape)."""

    @abstractmethod
    def all_to_all(self, x: Host, out: Host) -> None:
        """Row j of x goes to rank j; row j of `out` comes from it. Both have n rows."""

    @abstractmethod
    def reduce_scatter(self, x: Host, out: Host) -> None:
        """Of the sum of all operands, which have n rows, each rank gets its row."""

    @abstractmethod
    def permute(self, x: Host, out: Host, source: int | None, destination: int | None) -> None:
        """Send x to one rank (None: to nobody), and receive from one; zeros where none sends."""

    @abstractmethod
    def broadcast(self, x: Host, out: Host, source: int) -> None:
        """Every rank gets the operand of one."""

    @abstractmethod
    def exchange(self, value: Any, what: str) -> list[Any]:
        """Small Python values of all ranks, in their order. `what` says for what, for messages."""

    @abstractmethod
    def group(self, members: Sequence[int]) -> Communicator:
        """The communicator of some of these ranks, this one among them, in this order. Made once for equal ones."""

    @abstractmethod
    def abort(self, message: str) -> None:
        """End all ranks. Raises RanksError where they are threads, of which nobody can end one."""

    def barrier(self, what: str = "barrier") -> None:
        """Wait for all ranks."""
        self.exchange(None, what)


class Alone(Communicator):
    """One rank."""

    kind = "alone"

    def __init__(self, rank: int = 0) -> None:
        self.rank, self.size, self.ranks = 0, 1, (rank,)

    def reduce(self, op: str, x: Host, out: Host) -> None:
        out[...] = x

    def all_gather(self, x: Host, out: Host) -> None:
        out[0, ...] = x

    def all_to_all(self, x: Host, out: Host) -> None:
        out[...] = x

    def reduce_scatter(self, x: Host, out: Host) -> None:
        out[...] = x[0]

    def permute(self, x: Host, out: Host, source: int | None, destination: int | None) -> None:
        out[...] = 0 if source is None else x

    def broadcast(self, x: Host, out: Host, source: int) -> None:
        out[...] = x

    def exchange(self, value: Any, what: str) -> list[Any]:
        return [value]

    def group(self, members: Sequence[int]) -> Communicator:
        return self

    def abort(self, message: str) -> None:
        raise RanksError(message)


def combined(op: str, parts: Sequence[Host], out: Host) -> None:
    """Write the combination of the ranks' operands, in the ranks' order; numbers of 16 bits are summed in 32."""
    wider = _WIDER.get(out.dtype) if op == "sum" else None
    total = parts[0].astype(wider) if wider is not None else parts[0].copy()
    combine = COMBINE[op]
    with np.errstate(all="ignore"):
        for x in parts[1:]:
            combine(total, x, out=total)
        out[...] = total


__all__ = ["COMBINE", "Alone", "Communicator", "RanksError", "combined"]
