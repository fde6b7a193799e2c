"""The operators and methods of sparse arrays: those of arrays, sparsified."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import numpy as qnp
from ...compiling.api import eval_shape
from .base import METHODS, JAXSparse
from .rules import RULES
from .transform import sparsify
from .values import SparsifyEnv


def _sum(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    out = sparsify(lambda x: qnp.sum(x, axis=axis, dtype=dtype))(x)
    if not keepdims:
        return out
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    return sparsify(lambda y: qnp.expand_dims(y, tuple(sorted(a % x.ndim for a in axes))))(out)


def _reshape(x: Any, shape: Any, **kwargs: Any) -> Any:
    return sparsify(lambda x: qnp.reshape(x, shape, **kwargs))(x)


def _getitem(x: Any, item: Any) -> Any:
    return sparsify(lambda x: x[item])(x)


def _astype(x: Any, dtype: Any) -> Any:
    return sparsify(lambda x: x.astype(dtype))(x)


def _pow(x: Any, y: Any) -> Any:
    if isinstance(x, JAXSparse) and isinstance(y, int):
        return sparsify(lambda x: x**y)(x)
    return sparsify(operator.pow)(x, y)


def _scalar(x: Any) -> Any:
    """A number of the operand's dtype, weak where the operand is a number of Python."""
    return qnp.zeros((), x.dtype) if hasattr(x, "dtype") else x


def _with_rank(x: Any, rank: int) -> Any:
    """The array with leading dimensions of size 1."""
    return sparsify(lambda y: qnp.expand_dims(y, tuple(range(rank - y.ndim))))(x)


def _elementwise(name: str, f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An operator of two operands by its rule. Sizes of 1 are left, so that no sparse array is repeated."""

    def apply(a: Any, b: Any) -> Any:
        operands = [
            x if hasattr(x, "dtype") or isinstance(x, int | float | complex) else qnp.asarray(x) for x in (a, b)
        ]
        shapes = [tuple(np.shape(x)) if not isinstance(x, JAXSparse) else x.shape for x in operands]
        try:
            rank = len(np.broadcast_shapes(*shapes))
        except ValueError:
            raise TypeError(f"{name} got incompatible shapes for broadcasting: {shapes[0]}, {shapes[1]}.") from None
        dtype = eval_shape(f, *map(_scalar, operands)).dtype
        env = SparsifyEnv()
        values: list[Any] = []
        for x, shape in zip(operands, shapes):
            if not isinstance(x, JAXSparse):
                x = qnp.asarray(x, dtype)
            elif x.dtype != dtype:
                x = _astype(x, dtype)
            if shape and len(shape) < rank:
                x = _with_rank(x, rank)
            values.append(env.value(x))
        (out,) = RULES[name](env, *values)
        return env.array(out)

    return apply


METHODS.update(
    {
        "sum": _sum,
        "reshape": _reshape,
        "getitem": _getitem,
        "astype": _astype,
        "pow": _pow,
        "neg": sparsify(operator.neg),
        "pos": sparsify(operator.pos),
        "abs": sparsify(operator.abs),
        "add": _elementwise("add", qnp.add),
        "sub": _elementwise("sub", qnp.subtract),
        "mul": _elementwise("mul", qnp.multiply),
        "truediv": _elementwise("div", qnp.true_divide),
        "matmul": sparsify(qnp.matmul),
        "eq": sparsify(qnp.equal),
    }
)
