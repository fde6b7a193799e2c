"""`jax._src.numpy.util`: operands of one dtype, and of one shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.numpy import asarray, broadcast_arrays, promote_types, result_type


def promote_dtypes(*args: Any) -> list[Any]:
    """The arguments as arrays of the dtype that they have together."""
    to = result_type(*args) if args else None
    return [asarray(x, to) for x in args]


def promote_dtypes_inexact(*args: Any) -> list[Any]:
    """The same, in the default float dtype where they are integers or bools."""
    to = result_type(*args) if args else None
    if to is not None and not dtypes.is_inexact(to):
        to = dtypes.canonicalize(float)
    return [asarray(x, to) for x in args]


def promote_dtypes_numeric(*args: Any) -> list[Any]:
    """The same, in the default integer dtype where they are bools."""
    to = result_type(*args) if args else None
    if to is not None and dtypes.is_bool(to):
        to = dtypes.canonicalize(int)
    return [asarray(x, to) for x in args]


def promote_dtypes_complex(*args: Any) -> list[Any]:
    """The same, in a complex dtype."""
    found = promote_dtypes_inexact(*args)
    return [x.astype(promote_types(x.dtype, np.complex64)) for x in found]


def promote_shapes(fun_name: str, *args: Any) -> list[Any]:
    """Arrays of fewer dimensions with dimensions of size 1 before theirs."""
    ndim = max((aval_of(x).ndim for x in args), default=0)
    return [asarray(x).reshape((1,) * (ndim - aval_of(x).ndim) + aval_of(x).shape) for x in args]


def check_arraylike(fun_name: str, *args: Any, emit_warning: bool = False, stacklevel: int = 3) -> None:
    """Raise TypeError where an argument is neither an array nor a number."""
    for i, x in enumerate(args):
        if isinstance(x, str | list | tuple | dict | set) or x is None:
            raise TypeError(f"{fun_name} requires ndarray or scalar arguments, got {type(x)} at position {i}")
        aval_of(x)


def ensure_arraylike(fun_name: str, *args: Any, emit_warning: bool = False, stacklevel: int = 3) -> Any:
    """The arguments as arrays, one alone or a tuple. Raises as `check_arraylike` does."""
    check_arraylike(fun_name, *args)
    return asarray(args[0]) if len(args) == 1 else tuple(asarray(x) for x in args)


_broadcast_arrays = broadcast_arrays

__all__ = [
    "check_arraylike", "ensure_arraylike", "promote_dtypes", "promote_dtypes_complex", "promote_dtypes_inexact",
    "promote_dtypes_numeric", "promote_shapes",
]  # fmt: skip
