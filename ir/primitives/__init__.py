"""The primitives, a file a family, each declaration followed by the thin functions that bind it.

The rules of a family are in files of the same name in the folders of the passes and backends; `load_rules` imports
those that a folder has, which fills its table.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

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
    "random",
    "fft",
    "calls",
)


def load_rules(package: str) -> None:
    """Import the rule files of a package: those named as a family."""
    for family in FAMILIES:
        name = f"{package}.{family}"
        if find_spec(name) is not None:
            import_module(name)


load_rules(__name__)
