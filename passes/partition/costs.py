"""The machine that the partitioner estimates times for: what matters is how communication compares with computing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """Rates of one device.

    Attributes:
        latency: seconds that any collective takes.
        link_bytes_per_second: what a device receives from others.
        bytes_per_second: what it reads or writes of its own memory.
        flops_per_second: what it computes.
    """

    latency: float = 5e-6
    link_bytes_per_second: float = 2e10
    bytes_per_second: float = 1e11
    flops_per_second: float = 1e12

    def message(self, received: float) -> float:
        """The time of a collective in which each device receives that many bytes."""
        return self.latency + received / self.link_bytes_per_second


MACHINE = Machine()


def received(kind: str, size: int, k: int) -> int:
    """The bytes that each of k devices receives in a collective whose operand has `size` bytes on each.

    An all-reduce is a reduce-scatter and an all-gather of the pieces.
    """
    if kind == "all_gather":
        return size * (k - 1)
    if kind in ("psum", "pmax", "pmin"):
        return 2 * size * (k - 1) // k
    if kind in ("reduce_scatter", "all_to_all"):
        return size * (k - 1) // k
    return size
