"""How `vmap` maps sparse arrays: along a batch dimension, which a lane does not have."""

from __future__ import annotations

from typing import Any

from ... import numpy as qnp
from ...transforms.vectorization import LANES, Lanes
from .bcoo_array import BCOO
from .bcsr_array import BCSR


def _one_lane(x: Any, axis: int) -> Any:
    """The array without a batch dimension, of buffers that still have it. Raises ValueError for a dimension that is no batch."""
    if not 0 <= axis < x.n_batch:
        raise ValueError(
            f"Cannot map in_axis={axis} for {type(x).__name__} array with n_batch={x.n_batch}. in_axes for batched "
            f"{type(x).__name__} operations must correspond to a batch dimension."
        )
    buffers, (shape, *known) = x.tree_flatten()
    size = shape[axis]
    whole = [qnp.broadcast_to(b, (*b.shape[:axis], size, *b.shape[axis + 1 :])) for b in buffers]
    return type(x).tree_unflatten(((*shape[:axis], *shape[axis + 1 :]), *known), whole)


def _all_lanes(x: Any, axis: int) -> Any:
    """The array of all lanes, of one lane's structure and the buffers of all. Raises ValueError for a dimension that is no batch."""
    buffers, (shape, *known) = x.tree_flatten()
    lane = x.n_batch - 1  # the buffers have the dimension
    if not 0 <= axis <= lane:
        raise ValueError(
            f"{type(x).__name__}: cannot add out_axis={axis} for {type(x).__name__} array with n_batch={lane}. "
            f"{type(x).__name__} batch axes must be a contiguous block of leading dimensions."
        )
    return type(x).tree_unflatten(((*shape[:axis], buffers[0].shape[axis], *shape[axis:]), *known), buffers)


for _class in (BCOO, BCSR):
    LANES[_class] = Lanes(_one_lane, _all_lanes)
