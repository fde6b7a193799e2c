"""Results of the reference rules as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir.avals import ShapedArray
from quire.ir.source import out_of_memory
from quire.runtime.array import Array, from_numpy


def own(value: np.ndarray[Any, Any], aval: ShapedArray, operands: Sequence[Any]) -> Array:
    """An Array of a reference result: read-only, and no view of memory that a user may write."""
    flags = value.flags
    if not flags.owndata or any([value is x for x in operands]):
        if any([x.flags.writeable and np.may_share_memory(value, x) for x in operands]):
            try:
                value = value.copy()
            except MemoryError as error:
                out_of_memory("", error)
            flags = value.flags
    if flags.writeable:
        value.setflags(write=False)
    return from_numpy(value, aval)
