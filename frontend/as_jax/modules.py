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


def _private(*names: str) -> dict[str, tuple[str, ...]]:
    return {f"jax._src.{name}": (f"{_PRIVATE}.{name}",) for name in names}


#: Module of JAX to the modules that it shows.
MODULES: dict[str, tuple[str, ...]] = {
    "jax": (f"{_HERE}.top", "quire"),
    "jax.lib": (f"{_HERE}.lib",),
    "jax.version": (f"{_HERE}.version",),
    "jaxlib": (f"{_HERE}.version",),
    "jaxlib.version": (f"{_HERE}.version",),
    "jaxlib._jax": (f"{_HERE}.jaxlib",),
    "jaxlib.xla_client": (f"{_HERE}.jaxlib",),
    "jax._src": (_PRIVATE,),
    **_private("compiler", "dispatch", "distributed", "literals", "traceback_util", "xla_bridge"),
    "jax._src.ad_util": (f"{_PRIVATE}.ad_util", "quire.interpreters.ad"),
    "jax._src.api": ("quire",),
    "jax._src.api_util": (f"{_PRIVATE}.api_util", "quire.api_util"),
    "jax._src.array": (f"{_PRIVATE}.array",),
    "jax._src.checkify": ("quire.experimental.checkify",),
    "jax._src.config": (f"{_PRIVATE}.config",),
    "jax._src.core": (f"{_PRIVATE}.core", "quire.extend.core", "quire.core", "quire.ir.jaxpr"),
    "jax._src.custom_derivatives": ("quire.custom_derivatives",),
    "jax._src.debugging": ("quire.debug",),
    "jax._src.dtypes": (f"{_PRIVATE}.dtypes", "quire.dtypes"),
    "jax._src.earray": (f"{_PRIVATE}.array",),
    "jax._src.flatten_util": ("quire.flatten_util",),
    "jax._src.interpreters": ("quire.interpreters",),
    "jax._src.interpreters.ad": ("quire.interpreters.ad",),
    "jax._src.interpreters.batching": (f"{_PRIVATE}.batching", "quire.interpreters.batching"),
    "jax._src.interpreters.mlir": ("quire.interpreters.mlir",),
    "jax._src.interpreters.partial_eval": ("quire.interpreters.partial_eval",),
    "jax._src.interpreters.pxla": (f"{_PRIVATE}.pxla", "quire.interpreters.pxla"),
    "jax._src.lax": ("quire.lax",),
    "jax._src.lax.lax": ("quire.lax",),
    "jax._src.lib": (f"{_HERE}.jaxlib",),
    "jax._src.lib.xla_client": (f"{_HERE}.jaxlib",),
    "jax._src.linear_util": ("quire.extend.linear_util",),
    "jax._src.mesh": ("quire.sharding",),
    "jax._src.nn": ("quire.nn",),
    "jax._src.numpy": ("quire.numpy",),
    "jax._src.numpy.lax_numpy": (f"{_PRIVATE}.lax_numpy", "quire.numpy"),
    "jax._src.numpy.linalg": ("quire.numpy.linalg",),
    "jax._src.numpy.util": (f"{_PRIVATE}.numpy_util",),
    "jax._src.prng": ("quire.random",),
    "jax._src.public_test_util": ("quire.test_util",),
    "jax._src.random": ("quire.random",),
    "jax._src.scipy": ("quire.scipy",),
    "jax._src.sharding_impls": ("quire.sharding",),
    "jax._src.source_info_util": (f"{_PRIVATE}.source_info_util",),
    "jax._src.state": (f"{_PRIVATE}.state",),
    "jax._src.state.types": (f"{_PRIVATE}.state",),
    "jax._src.tree_util": (f"{_PRIVATE}.tree_util", "quire.tree_util"),
    "jax._src.typing": ("quire.typing",),
    "jax._src.util": (f"{_PRIVATE}.util",),
    "jax.core": (f"{_PRIVATE}.core_tables", "quire.core"),
    "jax.experimental": (f"{_HERE}.experimental", "quire.experimental"),
    "jax.experimental.array_serialization.serialization": (f"{_PRIVATE}.serialization",),
    "jax.experimental.colocated_python": (f"{_PRIVATE}.colocated_python",),
    "jax.experimental.colocated_python.func": (f"{_PRIVATE}.colocated_python",),
    "jax.experimental.colocated_python.serialization": (f"{_PRIVATE}.colocated_python",),
    "jax.experimental.pallas": (f"{_PRIVATE}.pallas",),
    "jax.experimental.pallas.triton": (f"{_PRIVATE}.pallas",),
    "jax.experimental.pallas.tpu": (f"{_PRIVATE}.pallas",),
    "jax.extend.ifrt_programs": (f"{_PRIVATE}.ifrt_programs",),
    "jax.experimental.hijax": (f"{_PRIVATE}.hijax", "quire.core"),
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
