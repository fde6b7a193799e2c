"""The workloads, a file a group or two. `load` imports them, which fills the table."""

from __future__ import annotations

import importlib

GROUPS = (
    "calls", "startup", "tracing", "eager", "elementwise", "reductions", "contraction", "indexing", "loops", "training", "devices",
    "images", "irregular", "sequences", "filters", "shapes", "own_kernels", "exported",
)  # fmt: skip


def load() -> None:
    """Register all workloads; nothing is built or imported for them yet."""
    for group in GROUPS:
        importlib.import_module(f"{__name__}.{group}")
