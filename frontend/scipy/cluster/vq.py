"""quire.scipy.cluster.vq: vector quantisation."""

from __future__ import annotations

from typing import Any

from quire.ir.avals import aval_of

from ... import numpy as qnp
from ...arrays.operands import Value, array, promote_inexact


def vq(obs: Any, code_book: Any, check_finite: bool = True) -> tuple[Value, Value]:
    """The nearest code of each observation.

    Args:
        obs: observations, a matrix with one in each row, or a vector of numbers.
        code_book: codes, of as many dimensions as `obs` and with rows of the same size.
        check_finite: for SciPy's sake; it changes nothing.

    Returns:
        (codes, distances): the index of each observation's nearest code, int32, and their Euclidean distance.

    Raises:
        ValueError: obs is no vector or matrix, the code book does not fit, or is empty.

    Follows `scipy.cluster.vq.vq`.

    >>> quire.scipy.cluster.vq.vq(quire.numpy.array([0., 2.5]), quire.numpy.array([0., 1., 3.]))
    (Array([0, 2], dtype=int32), Array([0. , 0.5], dtype=float32))
    """
    x, codes = promote_inexact(array("cluster.vq.vq", obs), array("cluster.vq.vq", code_book, 1))
    shown = f"{aval_of(x).short()} and {aval_of(codes).short()}"
    if aval_of(x).ndim != aval_of(codes).ndim:
        raise ValueError(f"quire.scipy.cluster.vq.vq: obs and code_book must have as many dimensions, got {shown}")
    if aval_of(x).ndim not in (1, 2):
        raise ValueError(f"quire.scipy.cluster.vq.vq: obs must be a vector or a matrix, got {shown}")
    if aval_of(x).ndim == 1:
        x, codes = x[:, None], codes[:, None]
    if aval_of(x).shape[1] != aval_of(codes).shape[1]:
        raise ValueError(f"quire.scipy.cluster.vq.vq: obs and code_book must have rows of one size, got {shown}")
    if aval_of(codes).shape[0] == 0:
        raise ValueError(f"quire.scipy.cluster.vq.vq: code_book has no codes, got {shown}")
    difference = x[:, None, :] - codes[None, :, :]
    squares = qnp.sum(qnp.real(difference * qnp.conj(difference)), axis=-1)
    return qnp.argmin(squares, axis=1), qnp.sqrt(qnp.min(squares, axis=1))


__all__ = ["vq"]
