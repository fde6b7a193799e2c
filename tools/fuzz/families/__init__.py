"""The statements that programs are made of, by family."""

from __future__ import annotations

from collections.abc import Callable

from ..builder import Builder
from . import (
    contraction,
    control_flow,
    elementwise,
    fft,
    indexing,
    linalg,
    random,
    reductions,
    repeated,
    sorting,
    stencils,
    structural,
)

Family = Callable[[Builder], object]

#: Each family with its weight.
FAMILIES: tuple[tuple[Family, int], ...] = (
    *((f, 4) for f in elementwise.FAMILY),
    *((f, 3) for f in structural.FAMILY),
    *((f, 3) for f in reductions.FAMILY),
    *((f, 5) for f in repeated.FAMILY),
    *((f, 5) for f in stencils.FAMILY),
    *((f, 5) for f in indexing.FAMILY),
    *((f, 1) for f in contraction.FAMILY),
    *((f, 2) for f in sorting.FAMILY),
    *((f, 1) for f in fft.FAMILY),
    *((f, 1) for f in linalg.FAMILY),
    *((f, 1) for f in random.FAMILY),
    *((f, 3) for f in control_flow.FAMILY),
)

NAMES: tuple[str, ...] = tuple(dict.fromkeys(f.__module__.rsplit(".", 1)[-1] for f, _ in FAMILIES))
"""The families' names."""


def favoured(name: str | None) -> list[Family]:
    """The statements as often as they are to be chosen: by their weights, or half of them from one family."""
    all_ = [f for f, weight in FAMILIES for _ in range(weight)]
    own = [f for f in all_ if f.__module__.rsplit(".", 1)[-1] == name]
    return all_ + own * (len(all_) // max(1, len(own)))
