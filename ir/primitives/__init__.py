"""The primitives, a file a family, each declaration followed by the thin functions that bind it.

The rules of a family are in files of the same name in the folders of the passes and backends; `load_rules` imports
those that a folder has, which fills its table.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

FAMILIES = (
    "elementwise",
    "structural",
    "reductions",
    "windows",
    "contraction",
    "indexing",
    "sorting",
    "control_flow",
    "linalg",
    "collectives",
    "sharding",
    "random",
    "fft",
    "calls",
    "shard_map",
    "refs",
)


def load_rules(package: str) -> None:
    """Import the rule files of a package: those named as a family."""
    present = {module.name for module in iter_modules(import_module(package).__path__)}  # one listing of the folder
    for family in FAMILIES:
        if family in present:
            import_module(f"{package}.{family}")


load_rules(__name__)
