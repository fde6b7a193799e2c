"""Descriptions of machines, and what computing and communicating costs on them."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PRESETS = Path(__file__).with_name("machines.toml")


@dataclass(frozen=True)
class Link:
    """What joins devices: seconds a message takes however small, bytes a second, and up to how many devices (0: all)."""

    latency: float
    bytes_per_second: float
    devices: int = 0

    def collective(self, kind: str, size: int, k: int) -> float:
        """The time of a collective among k devices whose operand has `size` bytes on each.

        In the model of latency (a) and time a byte (b), a ring takes (k - 1) steps of a piece each, recursive doubling log2 k
        steps: R. Thakur, R. Rabenseifner, W. Gropp, Optimization of Collective Communication Operations in MPICH, 2005;
        P. Patarasuk, X. Yuan, Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations, 2009. The faster
        of both counts.
        """
        if k <= 1:
            return 0.0
        a, b = self.latency, 1 / self.bytes_per_second
        turns = math.ceil(math.log2(k))
        if kind in ("psum", "pmax", "pmin"):
            return min(2 * (k - 1) * (a + size / k * b), turns * (a + size * b))
        if kind == "all_gather":
            return min((k - 1) * (a + size * b), turns * a + (k - 1) * size * b)
        if kind in ("reduce_scatter", "all_to_all"):
            return min((k - 1) * (a + size / k * b), turns * (a + size / 2 * b))
        if kind == "pbroadcast":
            return turns * (a + size * b)
        return a + size * b  # ppermute: one message


@dataclass(frozen=True)
class Machine:
    """Devices of one kind and what joins them; see machines.toml."""

    flops: float
    bytes_per_second: float
    links: tuple[Link, ...]
    kernel: float = 0.0
    call: float = 0.0
    cores: int = 0
    about: str = ""
    axes: Mapping[str, Link] = field(default_factory=lambda: dict[str, Link]())

    @property
    def flops_per_second(self) -> float:
        """As `passes.cost` asks for it."""
        return self.flops

    def link(self, axes: Sequence[Any], sizes: Mapping[Any, int]) -> Link:
        """What joins the devices along some axes of a mesh whose last axis has neighbours: the nearest that reaches them."""
        for a in axes:
            if a in self.axes:
                return self.axes[a]
        names = list(sizes)
        first = min(names.index(a) for a in axes)
        span = math.prod(sizes[n] for n in names[first:])
        return next((one for one in self.links[:-1] if one.devices >= span), self.links[-1])


def machines(path: Path = PRESETS) -> dict[str, Machine]:
    """The machines of a file by name. Raises ValueError for a description that is not one, OSError for no file."""
    found = tomllib.loads(path.read_text())
    out: dict[str, Machine] = {}
    for name, one in found.items():
        try:
            links = tuple(Link(**link) for link in one.pop("links"))
            out[name] = Machine(links=links, **one)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path}: {name}: expected flops, bytes_per_second, links and the like: {error}") from None
        if not links:
            raise ValueError(f"{path}: {name}: expected at least one link")
    return out


def link_of(text: str) -> tuple[str, Link]:
    """The axis and the link that ``data=1e-5,2e10`` says: latency and bytes a second. Raises ValueError for other text."""
    name, _, rest = text.partition("=")
    try:
        latency, rate = map(float, rest.split(","))
    except ValueError:
        raise ValueError(f"expected a link such as data=1e-5,2e10 (latency, bytes a second), got {text!r}") from None
    return name.strip(), Link(latency, rate)
