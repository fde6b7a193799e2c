"""What the functions of quire.numpy.linalg and quire.scipy.linalg begin with: arrays and matrices of one dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.primitives import linalg as la
from quire.ir.primitives import structural as st

from .._util import Value, cast, is_arraylike, lift, promote_inexact

NUMPY, SCIPY = "quire.numpy.linalg", "quire.scipy.linalg"


def plain(name: str, *args: Any, module: str = NUMPY) -> list[Value]:
    """The arguments as arrays; TypeError for lists and other objects."""
    out: list[Value] = []
    for i, x in enumerate(args):
        if not is_arraylike(x):
            fix = ": convert it first with quire.numpy.array" if isinstance(x, list | tuple) else ""
            raise TypeError(
                f"{module}.{name}: requires ndarray or scalar arguments, got {type(x)} at position {i}{fix}"
            )
        out.append(lift(x.__jax_array__() if hasattr(x, "__jax_array__") else x))
    return out


def arrays(name: str, *args: Any, module: str = NUMPY) -> list[Value]:
    """The arguments as arrays of one inexact dtype."""
    return [cast(x, x.aval.dtype) for x in promote_inexact(*plain(name, *args, module=module))]


def matrices(
    name: str, *args: Any, square: bool = False, half: Callable[[ShapedArray], bool] | None = None, module: str = NUMPY
) -> list[Value]:
    """The arguments as arrays of one dtype of LAPACK; the first must hold matrices (square ones if asked).

    `half`: for which avals of the first the argument's dtype may be float16 or bfloat16 too.
    """
    values = arrays(name, *args, module=module)
    aval = values[0].aval
    if aval.ndim < 2 or (square and aval.shape[-1] != aval.shape[-2]):
        kind = "square matrices, shape (..., n, n)" if square else "matrices, shape (..., m, n)"
        raise ValueError(f"{module}.{name}: the argument must hold {kind}, got {aval.short()}")
    if half is not None and aval.dtype in (dtypes.float16, dtypes.bfloat16) and half(aval):
        return values
    if aval.dtype not in la.LAPACK:
        raise TypeError(
            f"{module}.{name}: {aval.dtype} is not supported, the argument must be float32, float64, complex64 or "
            "complex128: convert it with .astype('float32')"
        )
    return values


def dagger(x: Value) -> Value:
    """The matrices transposed and conjugated."""
    return la.transpose_last(x, conjugate=dtypes.is_complex(x.aval.dtype))


def identity_like(x: Value, n: int | None = None) -> Value:
    """Identity matrices with the leading dimensions and the dtype of x, and its number of rows or n."""
    *batch, rows, _ = x.aval.shape
    size = rows if n is None else n
    return st.broadcast_to(la.eye(size, size, x.aval.dtype), (*batch, size, size))


def epsilon(x: Value) -> float:
    """The distance from 1 to the next number of x's dtype."""
    return float(np.finfo(dtypes.real_dtype(x.aval.dtype)).eps)
