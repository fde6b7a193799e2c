"""Questions about dtypes, as jax.dtypes: limits, promotion, the kinds that NumPy does not have."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from quire.ir import dtypes as _dtypes
from quire.ir.avals import aval_of
from quire.ir.dtypes import float0 as float0
from quire.ir.errors import TypePromotionError as TypePromotionError

from .absent_names import module_getattr
from .arrays.key_array import extended as extended
from .arrays.key_array import key_dtype_of
from .arrays.key_array import prng_key as prng_key
from .arrays.operands import is_arraylike
from .numpy import finfo as finfo
from .numpy import iinfo as iinfo
from .numpy import issubdtype as _numpy_issubdtype

bfloat16 = ml_dtypes.bfloat16


_SCALARS = (
    (_dtypes.is_bool, bool),
    (_dtypes.is_integer, int),
    (_dtypes.is_float, float),
    (_dtypes.is_complex, complex),
)


def _dtype(function: str, dtype: Any) -> np.dtype[Any]:
    try:
        wanted = _dtypes.as_dtype(dtype)
        _dtypes.canonicalize(wanted)  # TypeError for one that quire does not have
        return wanted
    except TypeError as error:
        raise TypeError(f"quire.dtypes.{function}: {error}") from None


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> np.dtype[Any]:
    """The dtype as quire stores it: without `enable_x64` those of 64 bits become those of 32.

    `allow_extended_dtype` is for dtypes of keys, which are returned as they are. TypeError for a dtype quire does not have.

    Follows `jax.dtypes.canonicalize_dtype`.

    >>> quire.dtypes.canonicalize_dtype(np.float64)
    dtype('float32')
    """
    if allow_extended_dtype and issubdtype(dtype, extended):
        return dtype
    return _dtypes.canonicalize(_dtype("canonicalize_dtype", dtype))


def issubdtype(a: Any, b: Any) -> bool:
    """Whether dtype or kind a is of kind b, as `numpy.issubdtype`, with bfloat16 and the kinds of keys.

    Follows `jax.dtypes.issubdtype`.

    >>> quire.dtypes.issubdtype(quire.dtypes.bfloat16, np.floating)
    True
    >>> quire.dtypes.issubdtype(quire.dtypes.prng_key, quire.dtypes.extended)
    True
    """
    kinds = [x if isinstance(x, type) else getattr(x, "type", x) for x in (a, b)]
    if any(isinstance(k, type) and issubclass(k, extended) for k in kinds):
        return isinstance(kinds[0], type) and isinstance(kinds[1], type) and issubclass(kinds[0], kinds[1])
    return bool(_numpy_issubdtype(a, b))


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The dtype of an operation on arrays, numbers or dtypes; with the flag the pair (dtype, whether it is weak).

    Raises:
        TypePromotionError: the dtypes have no common one, under `config.numpy_dtype_promotion` "strict".
        ValueError: there is no argument.

    Follows `jax.dtypes.result_type`.

    >>> quire.dtypes.result_type(np.int32(1), 2.0, return_weak_type_flag=True)
    (dtype('float32'), True)
    """
    if not args:
        raise ValueError("quire.dtypes.result_type: at least one array or dtype is required")
    if (keys := key_dtype_of(args)) is not None:
        return (keys, False) if return_weak_type_flag else keys
    kinds = []
    for x in args:
        if is_arraylike(x):
            aval = aval_of(x)
            kinds.append((aval.dtype, aval.weak_type))
        else:
            # NumPy's dtypes of 64 bits equal Python's types, and are of no weak type.
            kinds.append((_dtype("result_type", x), isinstance(x, type) and x in (int, float, complex)))
    dtype, weak = _dtypes.promote(kinds)
    dtype = _dtypes.default_of_kind(dtype) if weak else dtype
    return (dtype, weak) if return_weak_type_flag else dtype


def scalar_type_of(x: Any) -> type:
    """bool, int, float or complex: Python's type of an array's elements.

    Raises:
        TypeError: x is no array or number, or Python has no type for its elements.

    Follows `jax.dtypes.scalar_type_of`.

    >>> quire.dtypes.scalar_type_of(quire.numpy.arange(3))
    <class 'int'>
    """
    if not is_arraylike(x):
        raise TypeError(f"quire.dtypes.scalar_type_of: expected an array or a number, got {type(x).__name__}")
    d = aval_of(x).dtype
    for test, kind in _SCALARS:
        if test(d):
            return kind
    raise TypeError(f"quire.dtypes.scalar_type_of: {d} has no scalar type")


def itemsize_bits(dtype: Any) -> int:
    """The number of bits of an element. Follows `jax.dtypes.itemsize_bits`.

    Raises TypeError for a dtype that quire does not have, ValueError for None.

    >>> quire.dtypes.itemsize_bits("bfloat16")
    16
    """
    if dtype is None:
        raise ValueError("quire.dtypes.itemsize_bits: dtype cannot be None")
    d = _dtype("itemsize_bits", dtype)
    if d in _dtypes.NARROW_INTEGERS:
        return ml_dtypes.iinfo(d).bits
    return 4 if d == _dtypes.float4_e2m1fn else 8 * d.itemsize


__all__ = [
    "TypePromotionError", "bfloat16", "canonicalize_dtype", "extended", "finfo", "float0", "iinfo", "issubdtype",
    "itemsize_bits", "prng_key", "result_type", "scalar_type_of",
]  # fmt: skip

__getattr__ = module_getattr("quire.dtypes", globals())
