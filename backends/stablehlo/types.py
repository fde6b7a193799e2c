"""avals and dtypes as MLIR types, constants as MLIR attributes. All need a current MLIR context."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import iree.compiler.ir as mlir
import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.dtypes import DType

_INT_BITS = {d: (8 * d.itemsize, False) for d in dtypes.SIGNED} | {d: (8 * d.itemsize, True) for d in dtypes.UNSIGNED}


def kept(f: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the results of a function of hashable arguments, for each MLIR context: parsing an attribute takes 0.1 ms."""

    @functools.lru_cache(maxsize=4096)
    def in_context(context: Any, *args: Any) -> Any:
        del context  # part of the key, and the current one
        return f(*args)

    @functools.wraps(f)
    def call(*args: Any) -> Any:
        return in_context(mlir.Context.current, *args)

    return call


@kept
def element_type(dtype: DType) -> mlir.Type:
    """The StableHLO element type: i1, i32, ui8, bf16, complex<f32>, ... Raises TypeError for float0."""
    if dtype == dtypes.bool_:
        return mlir.IntegerType.get_signless(1)
    if dtype in _INT_BITS:
        bits, unsigned = _INT_BITS[dtype]
        return mlir.IntegerType.get_unsigned(bits) if unsigned else mlir.IntegerType.get_signless(bits)
    if dtype == dtypes.float32:
        return mlir.F32Type.get()
    if dtype == dtypes.float64:
        return mlir.F64Type.get()
    if dtype == dtypes.float16:
        return mlir.F16Type.get()
    if dtype == dtypes.bfloat16:
        return mlir.BF16Type.get()
    if dtype in dtypes.COMPLEX:
        return mlir.ComplexType.get(element_type(dtypes.real_dtype(dtype)))
    raise TypeError(f"dtype {dtype} has no StableHLO type")


@kept
def tensor_type(shape: tuple[int, ...], dtype: DType) -> mlir.RankedTensorType:
    """The MLIR type of arrays of a shape and a dtype."""
    return mlir.RankedTensorType.get(shape, element_type(dtype))


def aval_type(aval: ShapedArray) -> mlir.RankedTensorType:
    """The MLIR type of an aval."""
    return tensor_type(aval.shape, aval.dtype)


def dense(value: np.ndarray[Any, Any], shape: tuple[int, ...] | None = None) -> mlir.Attribute:
    """A dense elements attribute with the array's dtype and bits; a scalar with a `shape` is repeated (splat).

    Not for complex dtypes: IREE ends its process on some complex constants; build them from their parts.
    """
    if not value.shape:  # literals: the same few in every program
        return _dense_scalar(value.tobytes(), value.dtype, () if shape is None else shape)
    array = np.ascontiguousarray(value).reshape(value.shape)
    dtype = array.dtype
    if dtype == dtypes.bfloat16:
        array = array.view(np.uint16)
    return mlir.DenseElementsAttr.get(array, type=element_type(dtype), shape=array.shape if shape is None else shape)


@kept
def _dense_scalar(data: bytes, dtype: DType, shape: tuple[int, ...]) -> mlir.Attribute:
    array = np.frombuffer(data, dtype=np.uint16 if dtype == dtypes.bfloat16 else dtype).reshape(())
    return mlir.DenseElementsAttr.get(array, type=element_type(dtype), shape=shape)
