"""The collectives that compiled programs call."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

import numpy as np

from quire.backends.collective_call import CollectiveCall

from .communicator import Communicator
from .current import communicator
from .waiting import Waiting

Host = np.ndarray[Any, Any]


def implementation(call: CollectiveCall) -> Callable[..., None]:
    """A collective as a host function that fills its result; operands come before it.

    It finds out at each call which rank it is on: one program may serve several threads.
    """
    axes = call.axes
    grid = axes[0].grid
    names = [a.name for a in axes]
    known: dict[Communicator, Communicator] = {}

    def members() -> Communicator:
        """Those among all ranks that communicate with this one."""
        everyone = communicator()
        found = known.get(everyone)
        if found is None:
            rank = everyone.ranks[everyone.rank]
            group = grid.members(rank, names)
            if call.groups is not None:
                mine = group.index(rank)
                group = tuple(group[i] for g in call.groups if mine in g for i in g)
            found = known[everyone] = everyone.group([everyone.ranks.index(r) for r in group])
            if len(known) > 64:  # threads come and go
                known.clear()
        return found

    def reduce(x: Host, out: Host) -> None:
        members().reduce(call.kind, x, out)

    def all_gather(x: Host, out: Host) -> None:
        members().all_gather(x, out)

    def all_to_all(x: Host, out: Host) -> None:
        members().all_to_all(x, out)

    def reduce_scatter(x: Host, out: Host) -> None:
        members().reduce_scatter(x, out)

    def broadcast(x: Host, out: Host) -> None:
        members().broadcast(x, out, call.detail)

    def permute(x: Host, out: Host) -> None:
        group = members()
        source = next((a for a, b in call.detail if b == group.rank), None)
        destination = next((b for a, b in call.detail if a == group.rank), None)
        group.permute(x, out, source, destination)

    def axis_index(out: Host) -> None:
        everyone = communicator()
        out[...] = grid.index(everyone.ranks[everyone.rank], names)

    kinds: dict[str, Callable[..., None]] = {
        "sum": reduce, "max": reduce, "min": reduce, "all_gather": all_gather, "all_to_all": all_to_all,
        "reduce_scatter": reduce_scatter, "broadcast": broadcast, "permute": permute, "axis_index": axis_index,
    }  # fmt: skip
    run = kinds[call.kind]

    def watched(*arrays: Host) -> None:
        Waiting.what, Waiting.since = call.kind, monotonic()
        try:
            run(*arrays)
        finally:
            Waiting.since = 0.0

    return run if call.kind == "axis_index" else watched


__all__ = ["implementation"]
