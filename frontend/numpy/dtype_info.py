"""dtypes in the namespace of quire.numpy: scalar types, limits, promotion, and the questions about dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.config import config

from ..arrays.key_array import KeyDType, extended, key_dtype_of, prng_key
from ..arrays.operands import Value, is_arraylike
from .from_values import asarray

# NumPy's abstract scalar types; `issubdtype` knows bfloat16's place among them.
generic = np.generic
number = np.number
integer = np.integer
signedinteger = np.signedinteger
unsignedinteger = np.unsignedinteger
inexact = np.inexact
floating = np.floating
complexfloating = np.complexfloating
flexible = np.flexible
character = np.character
object_ = np.object_
dtype = np.dtype


class ScalarType(type):
    """The type of quire.numpy's scalar types: calling one makes an array of its dtype."""

    dtype: np.dtype[Any]

    def __call__(cls, x: Any) -> Value:  # type: ignore[override]
        return asarray(x, dtype=cls.dtype)

    def __eq__(cls, other: object) -> bool:
        # As in JAX: NumPy's scalar type and the dtype are equal to it, the dtype's name is not.
        if isinstance(other, type):
            return cls is other or other is cls.dtype.type
        return isinstance(other, np.dtype) and other == cls.dtype

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __repr__(cls) -> str:
        return f"quire.numpy.{cls.__name__}"

    def __instancecheck__(cls, instance: Any) -> bool:
        return getattr(instance, "dtype", None) == cls.dtype and getattr(instance, "ndim", None) == 0


def _scalar_type(name: str, kind: Any) -> Any:
    d = np.dtype(kind)
    doc = f"""The scalar type of dtype {d.name}: a dtype argument, and a function that makes arrays of it.

    >>> quire.numpy.{name}.dtype
    {d!r}
    """
    return ScalarType(name, (), {"dtype": d, "__doc__": doc, "__module__": "quire.numpy"})


bool_ = bool = _scalar_type("bool_", np.bool_)
int8, int16 = _scalar_type("int8", np.int8), _scalar_type("int16", np.int16)
int32, int64 = _scalar_type("int32", np.int32), _scalar_type("int64", np.int64)
uint8, uint16 = _scalar_type("uint8", np.uint8), _scalar_type("uint16", np.uint16)
uint32, uint64 = _scalar_type("uint32", np.uint32), _scalar_type("uint64", np.uint64)
float16, bfloat16 = _scalar_type("float16", np.float16), _scalar_type("bfloat16", ml_dtypes.bfloat16)
float32, float64 = _scalar_type("float32", np.float32), _scalar_type("float64", np.float64)
complex64, complex128 = _scalar_type("complex64", np.complex64), _scalar_type("complex128", np.complex128)
# Arrays of narrow dtypes can be kept, moved and converted, and not computed with.
float8_e3m4 = _scalar_type("float8_e3m4", ml_dtypes.float8_e3m4)
float8_e4m3 = _scalar_type("float8_e4m3", ml_dtypes.float8_e4m3)
float8_e4m3b11fnuz = _scalar_type("float8_e4m3b11fnuz", ml_dtypes.float8_e4m3b11fnuz)
float8_e4m3fn = _scalar_type("float8_e4m3fn", ml_dtypes.float8_e4m3fn)
float8_e4m3fnuz = _scalar_type("float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz)
float8_e5m2 = _scalar_type("float8_e5m2", ml_dtypes.float8_e5m2)
float8_e5m2fnuz = _scalar_type("float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz)
float8_e8m0fnu = _scalar_type("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu)
float4_e2m1fn = _scalar_type("float4_e2m1fn", ml_dtypes.float4_e2m1fn)
int2 = _scalar_type("int2", ml_dtypes.int2)
int4 = _scalar_type("int4", ml_dtypes.int4)
uint2 = _scalar_type("uint2", ml_dtypes.uint2)
uint4 = _scalar_type("uint4", ml_dtypes.uint4)
_NARROW_FLOATS: tuple[Any, ...] = tuple(
    t.dtype
    for t in (
        float8_e3m4, float8_e4m3, float8_e4m3b11fnuz, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu,
        float4_e2m1fn,
    )
)  # fmt: skip
_FLOATS: tuple[Any, ...] = (*dtypes.FLOATS, *_NARROW_FLOATS)
_SIGNED: tuple[Any, ...] = (*dtypes.SIGNED, int2.dtype, int4.dtype)
_UNSIGNED: tuple[Any, ...] = (*dtypes.UNSIGNED, uint2.dtype, uint4.dtype)
_NUMBERS: tuple[Any, ...] = (*_SIGNED, *_UNSIGNED, *_FLOATS, *dtypes.COMPLEX)
single, double, csingle, cdouble = float32, float64, complex64, complex128
int_: Any = int64
uint: Any = uint64
float_: Any = float64
complex_: Any = complex128


def finfo(dtype: Any) -> Any:
    """The limits of a float or complex dtype, also of one that arrays have under `enable_x64` alone: eps, max, ...

    Follows `numpy.finfo`.

    Raises ValueError for a dtype that is neither float nor complex.

    >>> float(quire.numpy.finfo("float32").eps) == 2**-23
    True
    """
    d = dtypes.as_dtype(dtype)
    if d in _NARROW_FLOATS:
        return ml_dtypes.finfo(d)
    if not dtypes.is_inexact(d):
        raise ValueError(f"quire.numpy.finfo: dtype {d} is not inexact: use iinfo for integers")
    return ml_dtypes.finfo(dtypes.real_dtype(d))


def iinfo(int_type: Any) -> Any:
    """The limits of an integer dtype, also of one that arrays have under `enable_x64` alone: bits, max, min. Follows `numpy.iinfo`.

    Raises ValueError for a dtype that is no integer one.

    >>> quire.numpy.iinfo("int8").max
    127
    """
    d = dtypes.as_dtype(int_type)
    if d in (int2.dtype, int4.dtype, uint2.dtype, uint4.dtype):
        return ml_dtypes.iinfo(d)
    if not dtypes.is_integer(d):
        raise ValueError(f"quire.numpy.iinfo: dtype {d} is not an integer dtype: use finfo for floats")
    return np.iinfo(d)


def result_type(*args: Any) -> Any:
    """The dtype of an operation on these arrays and dtypes, by the promotion lattice. Follows `numpy.result_type`.

    Raises ValueError where there is no argument, TypePromotionError for keys beside anything else.

    >>> quire.numpy.result_type(quire.numpy.arange(2), 1.5)
    dtype('float32')
    """
    if not args:
        raise ValueError("quire.numpy.result_type: at least one array or dtype is required")
    if (keys := key_dtype_of(args)) is not None:
        return keys
    kinds = []
    for a in args:
        if a in (float, int, complex) if isinstance(a, type) else False:
            kinds.append((dtypes.canonicalize(dtypes.as_dtype(a)), True))
        elif is_arraylike(a):
            aval = aval_of(a.__jax_array__() if hasattr(a, "__jax_array__") else a)
            kinds.append((aval.dtype, aval.weak_type))
        else:
            kinds.append((dtypes.explicit(dtypes.as_dtype(a)), False))
    dtype, weak = dtypes.promote(kinds)
    # Of weak ones alone the default dtype of their kind, as JAX has it, whatever width they have.
    return dtypes.default_of_kind(dtype) if weak else dtype


def promote_types(a: Any, b: Any) -> np.dtype[Any]:
    """The dtype to which two dtypes promote, those of 64 bits as such. Follows `numpy.promote_types`.

    >>> quire.numpy.promote_types("int8", "bfloat16").name
    'bfloat16'
    """
    kinds = [(dtypes.as_dtype(d), d in (int, float, complex) if isinstance(d, type) else False) for d in (a, b)]
    with config.override(enable_x64=True):
        return dtypes.promote(kinds)[0]


_KINDS: dict[Any, tuple[Any, ...]] = {
    np.generic: (*dtypes.ALL, *_NUMBERS),
    np.number: _NUMBERS,
    np.integer: (*_SIGNED, *_UNSIGNED),
    np.signedinteger: _SIGNED,
    np.unsignedinteger: _UNSIGNED,
    np.inexact: (*_FLOATS, *dtypes.COMPLEX),
    np.floating: _FLOATS,
    np.complexfloating: dtypes.COMPLEX,
}


def issubdtype(arg1: Any, arg2: Any) -> Any:
    """Whether a dtype is of a kind (floating, integer, ...) or equal to a dtype. Follows `numpy.issubdtype`.

    >>> quire.numpy.issubdtype("bfloat16", quire.numpy.floating)
    True
    """
    if isinstance(arg1, KeyDType):
        return arg1 == arg2 or isinstance(arg2, type) and issubclass(prng_key, arg2)
    if isinstance(arg2, KeyDType) or arg2 in (prng_key, extended):
        return isinstance(arg1, type) and isinstance(arg2, type) and issubclass(arg1, arg2)
    if isinstance(arg1, type) and arg1 in _KINDS:
        return isinstance(arg2, type) and issubclass(arg1, arg2)
    d = dtypes.as_dtype(arg1)
    if isinstance(arg2, type) and arg2 in _KINDS:
        return d in _KINDS[arg2]
    try:
        return d == dtypes.as_dtype(arg2)
    except TypeError:
        return np.issubdtype(d, arg2)


_NAMED_KINDS = {
    "bool": (dtypes.bool_,), "signed integer": _SIGNED, "unsigned integer": _UNSIGNED,
    "integral": (*_SIGNED, *_UNSIGNED), "real floating": _FLOATS, "complex floating": dtypes.COMPLEX, "numeric": _NUMBERS,
}  # fmt: skip


def isdtype(dtype: Any, kind: Any) -> Any:
    """Whether a dtype is of one of the array API's named kinds, or equal to a dtype. Follows `numpy.isdtype`.

    Raises ValueError for a string that names neither a kind nor a dtype.

    >>> quire.numpy.isdtype(quire.numpy.float32, "real floating")
    True
    """
    d = dtypes.as_dtype(dtype)
    for k in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(k, str) and k in _NAMED_KINDS:
            if d in _NAMED_KINDS[k]:
                return True
        elif isinstance(k, str) and k not in dtypes.FROM_SHORT and not hasattr(np, k) and k != "bfloat16":
            raise ValueError(
                f"quire.numpy.isdtype: unknown kind {k!r}: expected a dtype or one of {', '.join(_NAMED_KINDS)}"
            )
        elif issubdtype(d, k):
            return True
    return False


def can_cast(from_: Any, to: Any, casting: str = "safe") -> Any:
    """Whether a conversion between dtypes is permitted by a casting rule. Follows `numpy.can_cast`.

    >>> quire.numpy.can_cast("int32", "float32")
    False
    """
    source = from_.dtype if hasattr(from_, "dtype") and hasattr(from_, "shape") else dtypes.as_dtype(from_)
    return np.can_cast(source, dtypes.as_dtype(to), casting)  # type: ignore[arg-type]


def iscomplexobj(x: Any) -> Any:
    """Whether the dtype is complex. Follows `numpy.iscomplexobj`.

    >>> quire.numpy.iscomplexobj(1j)
    True
    """
    return x is not None and dtypes.is_complex(_dtype_of(x))


def isrealobj(x: Any) -> Any:
    """Whether the dtype is not complex. Follows `numpy.isrealobj`.

    >>> quire.numpy.isrealobj(1)
    True
    """
    return not iscomplexobj(x)


def _dtype_of(x: Any) -> np.dtype[Any]:
    return x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype


def isscalar(element: Any) -> Any:
    """Whether the object is a number or a 0-dimensional array. Follows `numpy.isscalar`.

    >>> quire.numpy.isscalar(3.)
    True
    """
    if isinstance(element, np.ndarray):
        return element.ndim == 0
    if hasattr(element, "__jax_array__"):
        element = element.__jax_array__()
    return is_arraylike(element) and aval_of(element).ndim == 0 or np.isscalar(element)


def iterable(y: Any) -> Any:
    """Whether the object can be iterated over. Follows `numpy.iterable`.

    >>> quire.numpy.iterable(3)
    False
    """
    try:
        iter(y)
    except TypeError:
        return False
    return True


def get_printoptions() -> dict[str, Any]:
    """How arrays are printed: NumPy's options. Follows `numpy.get_printoptions`.

    >>> quire.numpy.get_printoptions()["precision"]
    8
    """
    return np.get_printoptions()  # type: ignore[return-value]


set_printoptions = np.set_printoptions
printoptions = np.printoptions


def array_repr(
    arr: Any, max_line_width: int | None = None, precision: int | None = None, suppress_small: Any = None
) -> str:
    """The text that shows how to make the array. Follows `numpy.array_repr`.

    >>> quire.numpy.array_repr(quire.numpy.arange(2))
    'Array([0, 1], dtype=int32)'
    """
    given = {"linewidth": max_line_width, "precision": precision, "suppress": suppress_small}
    with np.printoptions(**{k: v for k, v in given.items() if v is not None}):
        return repr(asarray(arr))


def array_str(
    a: Any, max_line_width: int | None = None, precision: int | None = None, suppress_small: Any = None
) -> str:
    """The elements as text. Follows `numpy.array_str`.

    >>> quire.numpy.array_str(quire.numpy.arange(2))
    '[0 1]'
    """
    return np.array_str(np.asarray(a), max_line_width, precision, suppress_small)


def save(file: Any, arr: Any, allow_pickle: Any = True) -> None:
    """Write an array to a .npy file. Follows `numpy.save`."""
    np.save(file, np.asarray(arr), allow_pickle)


def savez(file: Any, *args: Any, allow_pickle: Any = True, **kwds: Any) -> None:
    """Write arrays to a .npz file. Follows `numpy.savez`."""
    arrays: dict[str, Any] = {k: np.asarray(v) for k, v in kwds.items()}
    np.savez(file, *[np.asarray(a) for a in args], allow_pickle=allow_pickle, **arrays)


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Read an array from a .npy file (or arrays from a .npz file, as NumPy's). Follows `numpy.load`."""
    out = np.load(file, *args, **kwargs)
    return asarray(out) if isinstance(out, np.ndarray) else out


__all__ = [
    "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu", "float4_e2m1fn", "int2", "int4", "uint2", "uint4",
    "array_repr", "array_str", "bfloat16", "bool", "bool_", "can_cast", "cdouble", "character", "complex128", "complex64",
    "complex_", "complexfloating", "csingle", "double", "dtype", "finfo", "flexible", "float16", "float32", "float64",
    "float_", "floating", "generic", "get_printoptions", "iinfo", "inexact", "int16", "int32", "int64", "int8", "int_",
    "integer", "iscomplexobj", "isdtype", "isrealobj", "isscalar", "issubdtype", "iterable", "load", "number", "object_",
    "printoptions", "promote_types", "result_type", "save", "savez", "set_printoptions", "signedinteger", "single", "uint",
    "uint16", "uint32", "uint64", "uint8", "unsignedinteger",
]  # fmt: skip
