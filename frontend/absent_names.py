"""What a module says of a name that it does not have: the nearest one."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any


def suggest_nearest(module: str, names: Mapping[str, Any]) -> Callable[[str], Any]:
    """A module's `__getattr__`: AttributeError with the nearest public name."""

    def absent(name: str) -> Any:
        public = [n for n in names if not n.startswith("_")]
        near = [] if name.startswith("__") else difflib.get_close_matches(name, public, n=1)
        hint = f"; did you mean {module}.{near[0]}?" if near else ""
        raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")

    return absent
