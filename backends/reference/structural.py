"""Reference rules of structural primitives."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir.primitives import structural as st

from .rules import reference


@reference(st.broadcast_in_dim_p)
def broadcast_in_dim(x: Any, *, shape: tuple[int, ...], broadcast_dimensions: tuple[int, ...]) -> Any:
    expanded = [1] * len(shape)
    for i, d in enumerate(broadcast_dimensions):
        expanded[d] = x.shape[i]
    return np.broadcast_to(x.reshape(expanded), shape)


@reference(st.reshape_p)
def reshape(x: Any, *, new_sizes: tuple[int, ...]) -> Any:
    return x.reshape(new_sizes)


@reference(st.transpose_p)
def transpose(x: Any, *, permutation: tuple[int, ...]) -> Any:
    return x.transpose(permutation)
