"""`jax._src.dtypes`: questions about dtypes that libraries ask of the private module."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir import dtypes

DType = np.dtype


class ExtendedDType:
    """The base of dtypes that libraries make up. quire's types of arrays take none of them but those of keys."""


def supports_inf(dtype: Any) -> bool:
    """Whether a dtype of floats has infinities."""
    return bool(np.isinf(np.array(np.inf).astype(dtypes.as_dtype(dtype)).astype(np.float64)))


def to_complex_dtype(dtype: Any) -> np.dtype[Any]:
    """The complex dtype whose parts have a dtype: complex128 for float64, complex64 for narrower ones."""
    d = dtypes.canonicalize(dtypes.as_dtype(dtype))
    return np.dtype(np.complex128 if d in (np.dtype(np.float64), np.dtype(np.complex128)) else np.complex64)


def to_inexact_dtype(dtype: Any) -> np.dtype[Any]:
    """The floating dtype as which an operation on floats takes a dtype."""
    d = dtypes.canonicalize(dtypes.as_dtype(dtype))
    if dtypes.is_float(d) or dtypes.is_complex(d):
        return d
    return dtypes.canonicalize(np.dtype(np.float64 if d.itemsize == 8 else np.float32))
