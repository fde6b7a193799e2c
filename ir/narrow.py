"""Which operations take numbers of 8 bits and fewer that are no bytes: they can be kept, moved and converted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import dtypes
from .avals import ShapedArray

# Families whose operations look at no element.
_MOVING = frozenset(("structural", "control_flow", "calls", "shard_map", "sharding", "refs"))
# Operations of other families that do not either, or whose meaning is a conversion.
_MOVING_OTHERS = frozenset(
    "gather scatter dynamic_slice dynamic_update_slice select_n copy stop_gradient convert_element_type bitcast_convert_type "
    "all_gather all_to_all ppermute pvary".split()
)


def is_narrow(aval: Any) -> bool:
    """Whether it is the type of such numbers."""
    return type(aval) is ShapedArray and aval.dtype in dtypes.NARROW


def check_moves(name: str, family: str, avals: Sequence[Any]) -> None:
    """Raise TypeError where an operation that computes is given such numbers."""
    if family in _MOVING or name in _MOVING_OTHERS:
        return
    for a in avals:
        if is_narrow(a):
            raise TypeError(
                f"{name}: arrays of dtype {a.dtype} can be kept, moved and converted, and not computed with, got {a.short()}: "
                "convert first, x.astype('float32'), and convert the result"
            )
