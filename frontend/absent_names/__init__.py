"""Names of JAX that quire does not have, with the reason, and what a module answers when asked for an absent name."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from .reasons import REASONS


def reason_for(module: str, name: str) -> str | None:
    """Why a name of JAX's module is absent from quire's module of that path (``numpy.linalg``); None if not known."""
    for where, patterns, reason in REASONS:
        if where == module and any(fnmatchcase(name, p) for p in patterns.split()):
            return reason
    return None


def module_getattr(
    module: str,
    names: Mapping[str, Any],
    lazy: Collection[str] = (),
    lazy_names: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[str], Any]:
    """A module's `__getattr__`: imports the submodules in `lazy` when first used, so that `import quire` stays quick.

    `lazy_names` are objects of submodules, by their names, which are imported when first used too.

    For any other name AttributeError, with the reason why quire does not have that name of JAX, or the nearest name.
    """

    def absent(name: str) -> Any:
        if name in lazy:
            return importlib.import_module(f"{module}.{name}")
        if name in lazy_names:
            return getattr(importlib.import_module(f"{module}.{lazy_names[name]}"), name)
        reason = reason_for(module.removeprefix("quire").removeprefix("."), name)
        if reason is not None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}: {reason}")
        public = [*(n for n in names if not n.startswith("_")), *lazy, *lazy_names]
        near = [] if name.startswith("__") else difflib.get_close_matches(name, public, n=1)
        hint = f"; did you mean {module}.{near[0]}?" if near else ""
        raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")

    return absent
