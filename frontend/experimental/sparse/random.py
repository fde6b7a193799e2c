"""Random sparse arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import numpy as qnp
from ... import random as qrandom
from ...transforms.vectorization import vmap
from .bcoo_array import BCOO
from .util import check_counts, size_of

Value = Any


def random_bcoo(
    key: Any, shape: Sequence[int], *, dtype: Any = float, indices_dtype: Any = None, nse: float | int = 0.2, n_batch: int = 0,
    n_dense: int = 0, unique_indices: bool = True, sorted_indices: bool = False, generator: Callable[..., Any] = qrandom.uniform,
    **kwds: Any,
) -> BCOO:  # fmt: skip
    """A BCOO with random places and random elements.

    Args:
        key: a key of `quire.random`.
        shape: the array's.
        dtype: of the elements.
        indices_dtype: of the indices; int32 by default, int64 with 64-bit dtypes.
        nse: how many elements each batch entry has; below 1, their share of the places.
        n_batch, n_dense: the numbers of batch and dense dimensions.
        unique_indices: whether the places differ.
        sorted_indices: whether they are in order.
        generator: of the elements: ``generator(key, shape=..., dtype=..., **kwds)``.

    Raises ValueError where the numbers do not fit the shape.
    """
    shape = tuple(int(n) for n in shape)
    n_sparse = check_counts("random_bcoo", len(shape), n_batch, n_dense)
    batch, sizes = shape[:n_batch], shape[n_batch : n_batch + n_sparse]
    places = size_of(sizes)
    if not 0 <= nse or (unique_indices and nse > max(places, 1)):
        raise ValueError(f"random_bcoo: nse={nse} of {places} places; expected a share, or a number of at most as many")
    number = math.ceil(nse * places) if nse < 1 else int(nse)
    data_key, indices_key = qrandom.split(key)
    index_dtype = np.dtype(indices_dtype or qnp.asarray(0).dtype)

    def one(key: Value) -> Value:
        if not n_sparse:
            return qnp.zeros((number, 0), index_dtype)
        flat = qrandom.choice(key, places, (number,), replace=not unique_indices)
        return qnp.stack(qnp.unravel_index(flat, sizes), axis=-1).astype(index_dtype)

    if not batch:
        indices = one(indices_key)
    elif size_of(batch):
        keys = qrandom.split(indices_key, size_of(batch))
        indices = vmap(one)(keys).reshape((*batch, number, n_sparse))
    else:
        indices = qnp.zeros((*batch, number, n_sparse), index_dtype)
    data = generator(data_key, shape=(*batch, number, *shape[n_batch + n_sparse :]), dtype=dtype, **kwds)
    mat = BCOO((data, indices), shape=shape)
    return mat.sort_indices() if sorted_indices else mat


__all__ = ["random_bcoo"]
