"""The layout of a BCOO: other numbers of batch and dense dimensions, and other orders of dimensions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ... import lax
from ... import numpy as qnp
from .base import METHODS
from .bcoo_array import BCOO
from .layout import columns, stacked, with_batch
from .util import SparseEfficiencyError, SparseEfficiencyWarning

Value = Any


def bcoo_update_layout(
    mat: BCOO, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str | None = "error"
) -> BCOO:
    """The same array with other numbers of batch and dense dimensions.

    Fewer are cheap: an element becomes one for each of its parts. More store each element once for each entry of the dimension.

    Args:
        mat: the array.
        n_batch, n_dense: the numbers; as they are by default.
        on_inefficient: what happens where one grows: "error", "warn", or None, nothing.

    Raises:
        ValueError: the numbers do not fit the array, or `on_inefficient` is another value.
        SparseEfficiencyError: a number grows, and `on_inefficient` is "error".
    """
    n_batch = mat.n_batch if n_batch is None else int(n_batch)
    n_dense = mat.n_dense if n_dense is None else int(n_dense)
    if (n_batch, n_dense) == (mat.n_batch, mat.n_dense):
        return mat
    for what, n in (("n_batch", n_batch), ("n_dense", n_dense)):
        if n < 0:
            raise ValueError(f"{what} must be non-negative; got {n}")
    if n_batch + n_dense > mat.ndim:
        raise ValueError(f"sum of n_batch={n_batch} and n_dense={n_dense} cannot be larger than mat.ndim={mat.ndim}.")
    if on_inefficient not in ("error", "warn", None):
        raise ValueError(f"on_inefficient={on_inefficient!r}; expected one of ['error', 'warn', None].")
    for what, old, new in (("n_batch", mat.n_batch, n_batch), ("n_dense", mat.n_dense, n_dense)):
        if new > old:
            _inefficient(
                f"For matrix of shape {mat.shape}, increasing {what} from {old} to {new} results in inefficient storage.",
                on_inefficient,
            )
    data, indices = mat.data, mat.indices
    batch = mat.shape[: mat.n_batch]
    for _ in range(mat.n_dense - n_dense):
        data, indices = _dense_to_sparse(data, indices)
    for size in reversed(batch[n_batch:]):
        data, indices = _batch_to_sparse(data, indices, size)
    for size in mat.shape[mat.n_batch : n_batch]:
        data, indices = _sparse_to_batch(data, indices, size)
    for size in reversed(mat.shape[mat.ndim - n_dense : mat.ndim - mat.n_dense]):
        data, indices = _sparse_to_dense(data, indices, size)
    return BCOO((data, indices), shape=mat.shape)


def _inefficient(message: str, on_inefficient: str | None) -> None:
    hint = "set the on_inefficient argument of bcoo_update_layout to"
    if on_inefficient == "error":
        raise SparseEfficiencyError(f"{message} To disable this error, {hint} 'warn' or None.")
    if on_inefficient == "warn":
        warnings.warn(f"{message} To disable this warning, {hint} None.", SparseEfficiencyWarning, stacklevel=3)


def _dense_to_sparse(data: Value, indices: Value) -> tuple[Value, Value]:
    """The first dense dimension as the last sparse one: an element for each of its entries."""
    n_batch = indices.ndim - 2
    nse, size = data.shape[n_batch : n_batch + 2]
    data = data.reshape((*data.shape[:n_batch], nse * size, *data.shape[n_batch + 2 :]))
    number = lax.broadcasted_iota(indices.dtype, (*indices.shape[:-1], size, 1), n_batch + 1)
    old = qnp.broadcast_to(indices[..., None, :], (*indices.shape[:-1], size, indices.shape[-1]))
    both = qnp.concatenate([old, number], axis=-1)
    return data, both.reshape((*indices.shape[:-2], nse * size, indices.shape[-1] + 1))


def _batch_to_sparse(data: Value, indices: Value, size: int) -> tuple[Value, Value]:
    """The last batch dimension as the first sparse one."""
    at = indices.ndim - 3
    data = qnp.broadcast_to(data, (*data.shape[:at], size, *data.shape[at + 1 :]))
    indices = qnp.broadcast_to(indices, (*indices.shape[:at], size, *indices.shape[at + 1 :]))
    number = lax.broadcasted_iota(indices.dtype, (*indices.shape[:-1], 1), at)
    indices = qnp.concatenate([number, indices], axis=-1)
    nse = size * indices.shape[-2]
    data = data.reshape((*data.shape[:at], nse, *data.shape[at + 2 :]))
    return data, indices.reshape((*indices.shape[:at], nse, indices.shape[-1]))


def _sparse_to_batch(data: Value, indices: Value, size: int) -> tuple[Value, Value]:
    """The first sparse dimension as the last batch one: each entry has all elements, zeros for those of others."""
    n_batch = indices.ndim - 2
    number = lax.broadcasted_iota(indices.dtype, (*(1,) * n_batch, size, 1), n_batch)
    own = indices[..., None, :, 0] == number  # (*batch, size, nse)
    own = own.reshape((*own.shape, *(1,) * (data.ndim - n_batch - 1)))
    data = qnp.where(own, qnp.expand_dims(data, n_batch), qnp.zeros((), data.dtype))
    rest = indices[..., None, :, 1:]
    return data, qnp.broadcast_to(rest, (*rest.shape[:n_batch], size, *rest.shape[n_batch + 1 :]))


def _sparse_to_dense(data: Value, indices: Value, size: int) -> tuple[Value, Value]:
    """The last sparse dimension as the first dense one: zeros around each element."""
    n_batch = indices.ndim - 2
    number = lax.broadcasted_iota(indices.dtype, (*(1,) * (n_batch + 1), size), n_batch + 1)
    own = indices[..., -1:] == number  # (*batch, nse, size)
    own = own.reshape((*own.shape, *(1,) * (data.ndim - n_batch - 1)))
    return qnp.where(own, qnp.expand_dims(data, n_batch + 1), qnp.zeros((), data.dtype)), indices[..., :-1]


def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """The array with its dimensions in another order; those of one kind, batch, sparse or dense, stay together.

    Raises:
        TypeError: `permutation` is no permutation of the dimensions.
        NotImplementedError: dimensions of different kinds change places.
    """
    order = tuple(int(d) for d in permutation)
    if sorted(order) != list(range(mat.ndim)):
        raise TypeError(
            f"transpose permutation isn't a permutation of operand dimensions, got permutation {order} for shape {mat.shape}."
        )
    n_batch, end = mat.n_batch, mat.n_batch + mat.n_sparse
    batch, sparse, dense = order[:n_batch], order[n_batch:end], order[end:]
    if sorted(batch) != list(range(n_batch)):
        raise NotImplementedError(
            f"transpose permutation cannot permute batch axes with non-batch axes; got permutation {order}, with n_batch={n_batch}."
        )
    if sorted(dense) != list(range(end, mat.ndim)):
        raise NotImplementedError(
            f"transpose permutation cannot permute dense axes with non-dense axes; got permutation {order}, with "
            f"n_dense={mat.n_dense}."
        )
    data = qnp.transpose(mat.data, (*batch, n_batch, *(d - mat.n_sparse + 1 for d in dense)))
    cols = columns(qnp.transpose(mat.indices, (*batch, n_batch, n_batch + 1)))
    same = sparse == tuple(range(n_batch, end))
    indices = qnp.transpose(mat.indices, (*batch, n_batch, n_batch + 1))
    if not same:
        indices = stacked([cols[d - n_batch] for d in sparse], indices)
    return BCOO(
        (data, indices), shape=tuple(mat.shape[d] for d in order), indices_sorted=mat.indices_sorted and same,
        unique_indices=mat.unique_indices,
    )  # fmt: skip


def full_batch(mat: BCOO) -> tuple[Value, Value]:
    """Data and indices with all batch dimensions of their full sizes."""
    batch = mat.shape[: mat.n_batch]
    return with_batch(mat.data, batch), with_batch(mat.indices, batch)


METHODS.update(update_layout=bcoo_update_layout, transpose=bcoo_transpose)

__all__ = ["bcoo_transpose", "bcoo_update_layout"]
