"""The operators and methods of sparse arrays: those of arrays, sparsified."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ... import numpy as qnp
from .transform import sparsify


def _sum(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    return sparsify(lambda x: qnp.sum(x, axis=axis, dtype=dtype, keepdims=keepdims))(x)


def _reshape(x: Any, shape: Any, **kwargs: Any) -> Any:
    return sparsify(lambda x: qnp.reshape(x, shape, **kwargs))(x)


def _getitem(x: Any, item: Any) -> Any:
    return sparsify(lambda x: x[item])(x)


def _astype(x: Any, dtype: Any) -> Any:
    return sparsify(lambda x: x.astype(dtype))(x)


OPERATORS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "sum": _sum,
        "reshape": _reshape,
        "getitem": _getitem,
        "astype": _astype,
        "neg": sparsify(operator.neg),
        "pos": sparsify(operator.pos),
        "abs": sparsify(operator.abs),
        "add": sparsify(qnp.add),
        "sub": sparsify(qnp.subtract),
        "mul": sparsify(qnp.multiply),
        "truediv": sparsify(qnp.true_divide),
        "pow": sparsify(operator.pow),
        "matmul": sparsify(qnp.matmul),
        "eq": sparsify(qnp.equal),
    }
)
