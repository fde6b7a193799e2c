"""The parts of an array, as its devices hold them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from quire.ir.sharding import Index, Sharding


class Shard:
    """The part of an array that one device holds.

    Attributes:
        device: the device.
        index: which part it is: a slice for each dimension.
        replica_id: the number of this device among those that hold the same part.
    """

    def __init__(self, device: Any, index: Index, replica_id: int, data: Any) -> None:
        self.device = device
        self.index = index
        self.replica_id = replica_id
        self._data = data

    @property
    def data(self) -> Any:
        """The part as an array on the device; None where the device is one of another process."""
        return self._data

    def __repr__(self) -> str:
        return f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, data={self.data})"


def shards_of(sharding: Sharding, shape: tuple[int, ...], part: Callable[[Any, Index], Any]) -> list[Shard]:
    """The parts of an array of a shape, in the order of the sharding's devices; ``part(device, index)`` gives one."""
    counts = Counter[Any]()
    shards: list[Shard] = []
    for device, index in sharding.devices_indices_map(shape).items():
        # A slice has no hash before Python 3.12.
        key = tuple((s.start, s.stop) for s in index)
        shards.append(Shard(device, index, counts[key], part(device, index)))
        counts[key] += 1
    return shards


__all__ = ["Shard", "shards_of"]
