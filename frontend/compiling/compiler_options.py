"""`compiler_options`: XLA's options for one program. Programs are compiled by IREE, so they are taken and change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Those that are no flags of XLA's own, whose names begin with xla_.
_OTHERS = frozenset(
    "exec_time_optimization_effort memory_fitting_effort optimization_level memory_fitting_level num_replicas num_partitions "
    "use_shardy_partitioner use_spmd_partitioning auto_spmd_partitioning_mesh_shape auto_spmd_partitioning_mesh_ids "
    "fdo_profile device_memory_size exec_time_optimization_level".split()
)


def checked_options(options: Any, what: str) -> dict[str, Any]:
    """The options that were given; they say how XLA compiles, and IREE does not hear of them.

    Raises:
        TypeError: they are no mapping from names to bools, numbers or texts.
        RuntimeError: a name is no option of XLA.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise TypeError(
            f"{what}: compiler_options must be a mapping from names of XLA's options to values, got {options!r}"
        )
    for name, value in options.items():
        if not isinstance(name, str) or not (name.startswith("xla_") or name in _OTHERS):
            raise RuntimeError(
                f"{what}: No such compile option: {name!r}: compiler_options are XLA's (xla_...), of which none changes what IREE "
                "compiles; target= and passes= choose among quire's"
            )
        if not isinstance(value, bool | int | float | str):
            raise TypeError(
                f"{what}: the compile option {name} must be a bool, a number or a text, got {value!r} of type "
                f"{type(value).__name__}"
            )
    return dict(options)


__all__ = ["checked_options"]
