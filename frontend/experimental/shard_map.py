"""`shard_map` with the arguments of the older `jax.experimental.shard_map`."""

from __future__ import annotations

from typing import Any

from ..transforms.shard_map import shard_map as _shard_map


def shard_map(
    f: Any, mesh: Any, in_specs: Any, out_specs: Any, check_rep: bool = True, auto: frozenset[Any] = frozenset()
) -> Any:
    """`quire.shard_map`; `check_rep` is its check_vma, `auto` are the axes of which `f` does not see parts.

    Raises ValueError for an axis in `auto` that the mesh does not have, and what `quire.shard_map` raises.
    """
    unknown = frozenset(auto) - frozenset(mesh.axis_names)
    if unknown:
        raise ValueError(f"shard_map: auto={set(auto)} names axes that are not in the mesh, {tuple(mesh.axis_names)}")
    names = frozenset(mesh.axis_names) - frozenset(auto)
    return _shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, axis_names=names, check_vma=bool(check_rep))


__all__ = ["shard_map"]
