"""Collectives between ranks, as functions that compiled programs call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quire.ir.ranks import RankAxis


@dataclass(frozen=True)
class CollectiveCall:
    """One collective between ranks; the runtime, which knows how ranks communicate, calls it.

    Equal ones do the same on every rank, so that all ranks share one stored program.

    Attributes:
        kind: sum, max, min (each rank gets the combined operands), all_gather (operands along a new dimension 0),
            reduce_scatter (the sum's row of this rank), all_to_all (row j goes to rank j, from which row j comes), permute,
            broadcast, axis_index.
        axes: along which it communicates, the first one the major.
        groups: for which indices along the axes each group communicates for itself; None: all together.
        detail: the pairs (source, destination) of permute; the source of broadcast.
    """

    kind: str
    axes: tuple[RankAxis, ...]
    groups: tuple[tuple[int, ...], ...] | None = None
    detail: Any = None

    @property
    def __name__(self) -> str:
        return self.kind

    def __call__(self, *arrays: Any) -> None:
        """Raises TypeError: only the runtime knows how ranks communicate."""
        raise TypeError(
            f"{self.kind} between ranks is called by the runtime (quire.runtime.processes.collectives) only"
        )
