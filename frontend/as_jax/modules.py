"""Which modules of quire stand for a module of JAX.

A module of JAX without a line here is the module of quire at the same path: `jax.numpy.linalg` is `quire.numpy.linalg`.
A line names the modules in which names are looked up, in order; those of this folder come first, and hold what only
libraries that import JAX need. `jax._src.*` are JAX's private modules: only those that libraries are known to import are here.
"""

from __future__ import annotations

import importlib.util
from functools import cache

#: The version of JAX whose names and behaviour quire has; libraries compare it.
JAX_VERSION = "0.10.2"
DISTRIBUTIONS = {"jax": JAX_VERSION, "jaxlib": JAX_VERSION}

_HERE = "quire.as_jax"
_PRIVATE = f"{_HERE}.private"

#: Module of JAX to the modules that it shows.
MODULES: dict[str, tuple[str, ...]] = {
    "jax": (f"{_HERE}.top", "quire"),
    "jax.version": (f"{_HERE}.version",),
    "jaxlib": (f"{_HERE}.version",),
    "jaxlib.version": (f"{_HERE}.version",),
    "jax._src": (f"{_PRIVATE}",),
    "jax._src.core": (f"{_PRIVATE}.core", "quire.extend.core", "quire.core"),
    "jax._src.numpy": ("quire.numpy",),
    "jax._src.random": ("quire.random",),
    "jax._src.tree_util": (f"{_PRIVATE}.tree_util", "quire.tree_util"),
    "jax._src.typing": ("quire.typing",),
    "jax._src.dtypes": (f"{_PRIVATE}.dtypes", "quire.dtypes"),
    "jax._src.lax": ("quire.lax",),
    "jax._src.nn": ("quire.nn",),
    "jax._src.scipy": ("quire.scipy",),
}


@cache
def sources(name: str) -> tuple[str, ...] | None:
    """The modules of quire that stand for a module of JAX; None where there is none."""
    listed = MODULES.get(name)
    if listed is not None:
        return listed
    root, _, rest = name.partition(".")
    if root != "jax" or not rest or rest.split(".")[0] in ("_src", "as_jax"):
        return None
    own = f"quire.{rest}"
    try:
        return (own,) if importlib.util.find_spec(own) is not None else None
    except ModuleNotFoundError:  # the parent is no package
        return None


def submodules(name: str) -> list[str]:
    """The names of the listed modules directly within a module of JAX."""
    prefix = f"{name}."
    return sorted({m.removeprefix(prefix).split(".")[0] for m in MODULES if m.startswith(prefix)})
