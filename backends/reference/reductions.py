"""Reference rules of reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir.primitives import reductions as rd

from .rules import reference


@reference(rd.reduce_sum_p)
def reduce_sum(x: Any, *, axes: tuple[int, ...]) -> Any:
    wide = np.float32 if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x.dtype
    return np.sum(x, axis=axes, dtype=wide).astype(x.dtype)
