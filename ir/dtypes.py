"""dtypes: which ones there are, their kinds, the 32-bit default and the promotion lattice.

The lattice is JAX's (its "Type promotion semantics"): Python scalars are weakly typed and give way to arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, cast

import ml_dtypes
import numpy as np

from .config import config
from .errors import TypePromotionError

DType = np.dtype[Any]

bool_ = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(t) for t in (np.int8, np.int16, np.int32, np.int64))
uint8, uint16, uint32, uint64 = (np.dtype(t) for t in (np.uint8, np.uint16, np.uint32, np.uint64))
bfloat16 = np.dtype(ml_dtypes.bfloat16)
float16, float32, float64 = (np.dtype(t) for t in (np.float16, np.float32, np.float64))
complex64, complex128 = np.dtype(np.complex64), np.dtype(np.complex128)
# The tangent dtype of integers and booleans: a type of no information, as in JAX.
float0 = np.dtype([("float0", np.void, 0)])

SIGNED = (int8, int16, int32, int64)
UNSIGNED = (uint8, uint16, uint32, uint64)
FLOATS = (float16, bfloat16, float32, float64)
COMPLEX = (complex64, complex128)
ALL = (bool_, *SIGNED, *UNSIGNED, *FLOATS, *COMPLEX)

# Numbers of 8 bits and fewer that are no bytes: arrays of them can be kept, moved and converted, and not computed with.
float8_e8m0fnu, float4_e2m1fn = np.dtype(ml_dtypes.float8_e8m0fnu), np.dtype(ml_dtypes.float4_e2m1fn)
NARROW_FLOATS: tuple[DType, ...] = (
    *(np.dtype(getattr(ml_dtypes, f"float8_{name}")) for name in "e3m4 e4m3 e4m3b11fnuz e4m3fn e4m3fnuz e5m2 e5m2fnuz".split()),
    float8_e8m0fnu, float4_e2m1fn,
)  # fmt: skip
NARROW_SIGNED: tuple[DType, ...] = (np.dtype(ml_dtypes.int2), np.dtype(ml_dtypes.int4))
NARROW_INTEGERS: tuple[DType, ...] = (*NARROW_SIGNED, np.dtype(ml_dtypes.uint2), np.dtype(ml_dtypes.uint4))
NARROW = frozenset((*NARROW_FLOATS, *NARROW_INTEGERS))

# Short names, as printed in jaxprs and accepted by the parser and by dumpir's --args.
SHORT: dict[DType, str] = {
    bool_: "bool", int8: "i8", int16: "i16", int32: "i32", int64: "i64",
    uint8: "u8", uint16: "u16", uint32: "u32", uint64: "u64",
    float16: "f16", bfloat16: "bf16", float32: "f32", float64: "f64",
    complex64: "c64", complex128: "c128", float0: "float0", **{d: d.name for d in (*NARROW_FLOATS, *NARROW_INTEGERS)},
}  # fmt: skip
FROM_SHORT: dict[str, DType] = {name: dtype for dtype, name in SHORT.items()}


def is_bool(d: DType) -> bool:
    """Whether it is bool."""
    return d == bool_


def is_signed(d: DType) -> bool:
    """Whether it is a signed integer dtype."""
    return d in SIGNED


def is_unsigned(d: DType) -> bool:
    """Whether it is an unsigned integer dtype."""
    return d in UNSIGNED


def is_integer(d: DType) -> bool:
    """Whether it is an integer dtype; bool is none."""
    return d in SIGNED or d in UNSIGNED


def is_float(d: DType) -> bool:
    """Whether it is a real floating-point dtype."""
    return d in FLOATS


def is_complex(d: DType) -> bool:
    """Whether it is a complex dtype."""
    return d in COMPLEX


def is_inexact(d: DType) -> bool:
    """Whether it is a float or complex dtype."""
    return d in FLOATS or d in COMPLEX


_PART = {complex64: float32, complex128: float64}


def real_dtype(d: DType) -> DType:
    """The dtype of the parts of a complex dtype (itself for others)."""
    return _PART.get(d, d)


_TO_32: dict[DType, DType] = {int64: int32, uint64: uint32, float64: float32, complex128: complex64}


WIDE = frozenset(_TO_32)
"""The dtypes of 64-bit numbers, which there are with `enable_x64` alone."""


def complex_dtype(d: DType) -> DType:
    """The complex dtype whose parts hold numbers of dtype `d`: double precision for all of 64 bits, integers too."""
    return complex128 if d in WIDE else complex64


def canonicalize(d: Any) -> DType:
    """The dtype as quire stores it: 64-bit types become 32-bit ones unless `enable_x64` is on.

    Raises TypeError for dtypes that quire does not have (strings, objects, dates, structures).
    """
    dtype = cast(DType, d) if isinstance(d, np.dtype) else as_dtype(d)
    if dtype not in SHORT:
        raise TypeError(f"dtype {dtype} is not one quire has: {', '.join(SHORT.values())}")
    return dtype if config.options.enable_x64 else _TO_32.get(dtype, dtype)


def explicit(d: Any) -> DType:
    """The dtype that was asked for: as `canonicalize`, but 64 bits stay where `explicit_x64_dtypes` is "allow".

    Raises TypeError for dtypes that quire does not have.
    """
    narrow = canonicalize(d)
    return as_dtype(d) if config.options.explicit_x64_dtypes == "allow" else narrow


_CODES = frozenset(("i8", "u8"))
"""Short names that are codes of other dtypes in NumPy."""
_PYTHON_TYPES: dict[Any, DType] = {bool: bool_, int: int64, float: float64, complex: complex128}


def as_dtype(d: Any) -> DType:
    """Any spelling of a dtype (np.float32, "bfloat16", float, a dtype's scalar type) as a NumPy dtype.

    NumPy's codes come before the short names: "i8" has 8 bytes.
    """
    if isinstance(d, type):
        if d in _PYTHON_TYPES:
            return _PYTHON_TYPES[d]
    elif isinstance(d, str) and d in FROM_SHORT and d not in _CODES:
        return FROM_SHORT[d]
    given: Any = d if isinstance(d, type) else getattr(d, "dtype", d)
    found: DType = np.dtype(given)
    return found


# The lattice: each node and the nodes directly above it.
_ABOVE: dict[Any, tuple[Any, ...]] = {
    bool_: ("i*",), "i*": (uint8, int8, *NARROW_INTEGERS), uint8: (int16, uint16), uint16: (int32, uint32),
    uint32: (int64, uint64), uint64: ("f*",), int8: (int16,), int16: (int32,), int32: (int64,), int64: ("f*",),
    "f*": ("c*", bfloat16, float16, *NARROW_FLOATS), bfloat16: (float32,), float16: (float32,), float32: (float64, complex64),
    float64: (complex128,), "c*": (complex64,), complex64: (complex128,), complex128: (),
    **dict.fromkeys((*NARROW_FLOATS, *NARROW_INTEGERS), ()),
}  # fmt: skip


_WITHOUT_PROMOTION = (
    ("8-bit floats", frozenset(NARROW_FLOATS) - {float4_e2m1fn}),
    ("4-bit floats", frozenset((float4_e2m1fn,))),
    ("1-bit, 2-bit and 4-bit integers", frozenset(NARROW_INTEGERS)),
)


@cache
def _upper(node: Any) -> frozenset[Any]:
    found = {node}
    for up in _ABOVE[node]:
        found |= _upper(up)
    return frozenset(found)


@cache
def _join(nodes: frozenset[Any]) -> Any:
    uppers = [_upper(n) for n in nodes]
    common = uppers[0].intersection(*uppers[1:])
    least = [n for n in common if common <= _upper(n)]
    if len(least) != 1:
        of_bits = "".join(
            f". {bits} do not support implicit promotion"
            for bits, kinds in _WITHOUT_PROMOTION
            if not nodes.isdisjoint(kinds)
        )
        raise TypePromotionError(
            f"no implicit promotion for dtypes {', '.join(map(str, nodes))}: convert one explicitly{of_bits}"
        )
    return least[0]


def _node(d: DType, weak: bool) -> Any:
    if not weak or d == bool_:
        return d
    if is_integer(d) or d in NARROW_INTEGERS:
        return "i*"
    return "c*" if is_complex(d) else "f*"


_WEAK_DEFAULT = {"i*": int64, "f*": float64, "c*": complex128}


def default_of_kind(d: DType) -> DType:
    """The default dtype of the kind of a dtype: what weak types of any width come to where nothing else prevails."""
    if is_unsigned(d) or d in NARROW_INTEGERS and d not in NARROW_SIGNED:
        return canonicalize(uint64)
    kind = int64 if is_integer(d) or d in NARROW_SIGNED else complex128 if is_complex(d) else float64
    return canonicalize(kind)


def promote_types(a: DType, b: DType) -> DType:
    """The least upper bound of two dtypes in the lattice. 64-bit operands stay so without `enable_x64`."""
    node = _join(frozenset((a, b)))
    found: DType = _WEAK_DEFAULT[node] if isinstance(node, str) else node
    return found if a in _TO_32 or b in _TO_32 else canonicalize(found)


def promote(kinds: Iterable[tuple[DType, bool]]) -> tuple[DType, bool]:
    """The dtype and weak type of an operation on operands of the given (dtype, weak_type) pairs.

    The least upper bound in the promotion lattice; weak only if every operand is weak, or if the bound is that of
    integers and a Python float. With `config.numpy_dtype_promotion = "strict"` only weak operands may differ, and those
    must not be of a higher kind than the others; bool goes with nothing else.
    """
    pairs = frozenset(kinds)
    if len(pairs) == 1:
        ((d, weak),) = pairs
        return explicit(d), weak and d != bool_
    options = config.options
    return _promote(pairs, options.enable_x64, options.explicit_x64_dtypes, options.numpy_dtype_promotion)


def _mixes_kinds(pairs: frozenset[tuple[DType, bool]]) -> bool:
    """Whether a weak operand (a Python number) is of a higher kind than a strong one, or a bool is among others."""
    kinds = [
        (0 if is_bool(d) else 1 if is_integer(d) or d in NARROW_INTEGERS else 3 if is_complex(d) else 2, weak)
        for d, weak in pairs
    ]
    lowest = min((kind for kind, weak in kinds if not weak), default=3)
    return lowest == 0 and len(kinds) > 1 or any(weak and kind > lowest for kind, weak in kinds)


@cache
def _promote(pairs: frozenset[tuple[DType, bool]], x64: bool, wide: str, mode: str) -> tuple[DType, bool]:
    pairs = frozenset((explicit(d), weak) for d, weak in pairs)
    strong = {d for d, weak in pairs if not weak}
    if mode == "strict" and (len(strong) > 1 or _mixes_kinds(pairs)):
        names = ", ".join(sorted(f"{d} of a Python number" if weak else str(d) for d, weak in pairs))
        raise TypePromotionError(
            f"dtypes {names} have no implicit promotion under numpy_dtype_promotion='strict': "
            "convert explicitly with .astype(...)"
        )
    if not strong:  # all weak: the dtypes themselves are joined, and the result is weak
        node = _join(frozenset(d for d, _ in pairs))
    else:
        node = _join(frozenset(_node(d, weak) for d, weak in pairs))
    if isinstance(node, str):
        # Strong integers with weak floats (or complex): the default dtype of that kind, and it stays weak.
        return canonicalize(_WEAK_DEFAULT[node]), True
    return explicit(node), not strong and node != bool_
