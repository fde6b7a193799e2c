"""The element types a kernel meets: how each crosses the boundary and how its bytes are read inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import ml_dtypes
import numpy as np

Kind = Literal["bool", "int", "uint", "float", "complex"]


@dataclass(frozen=True)
class DType:
    """One element type.

    ``boundary`` is the StableHLO element type, ``signless`` what ``flow.dispatch`` accepts in its place,
    ``scalar`` the MLIR type of one stored number (a complex element holds ``parts`` = 2 of them; a bool is a
    byte), and ``word`` x ``words`` the integers that carry an element when it is moved and not computed with:
    dispatches flush denormals, so values that are only moved never become floats.
    """

    name: str
    kind: Kind
    boundary: str
    signless: str
    scalar: str
    parts: int
    bits: int
    word: str
    words: int

    @property
    def nbytes(self) -> int:
        """Bytes of one element in memory."""
        return self.bits * self.parts // 8

    @property
    def signed(self) -> bool:
        """Whether comparisons of the stored number are signed (floats: after the key map)."""
        return self.kind in ("int", "float", "complex")

    @property
    def accumulator(self) -> str:
        """MLIR type in which one part is computed: f32 for the 16-bit floats, else the stored type."""
        return "f32" if self.scalar in ("f16", "bf16") else self.scalar

    def numpy(self) -> np.dtype:
        """The NumPy (or ml_dtypes) type of the same bytes."""
        return _NUMPY[self.name]


def _int(name: str, kind: Kind, bits: int) -> DType:
    boundary = ("ui" if kind == "uint" else "i") + str(bits)
    return DType(name, kind, boundary, f"i{bits}", f"i{bits}", 1, bits, f"i{bits}", 1)


def _float(name: str, bits: int) -> DType:
    return DType(name, "float", name, name, name, 1, bits, f"i{bits}", 1)


def _complex(name: str, part: str, bits: int) -> DType:
    boundary = f"complex<{part}>"
    return DType(name, "complex", boundary, boundary, part, 2, bits, "i64", bits // 32)


DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        DType("bool", "bool", "i1", "i1", "i8", 1, 8, "i8", 1),
        *(_int(f"i{n}", "int", n) for n in (8, 16, 32, 64)),
        *(_int(f"u{n}", "uint", n) for n in (8, 16, 32, 64)),
        *(_float(name, n) for name, n in (("f16", 16), ("bf16", 16), ("f32", 32), ("f64", 64))),
        _complex("c64", "f32", 32),
        _complex("c128", "f64", 64),
    )
}

_NUMPY: dict[str, np.dtype] = {
    "bool": np.dtype(np.bool_),
    **{f"i{n}": np.dtype(f"int{n}") for n in (8, 16, 32, 64)},
    **{f"u{n}": np.dtype(f"uint{n}") for n in (8, 16, 32, 64)},
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "c64": np.dtype(np.complex64),
    "c128": np.dtype(np.complex128),
}
_OF_NUMPY: dict[np.dtype, DType] = {t: DTYPES[n] for n, t in _NUMPY.items()}


def dtype_of(dtype: DType | str | np.dtype | type) -> DType:
    """The kernel element type of a short name (``"f32"``), a NumPy dtype or anything ``np.dtype`` takes.

    Raises ``TypeError`` for a type no kernel handles (strings, objects, 8-bit floats, ...).
    """
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, str) and dtype in DTYPES:
        return DTYPES[dtype]
    found = _OF_NUMPY.get(np.dtype(dtype))
    if found is None:
        raise TypeError(f"kernels have no element type for {dtype!r}; expected one of {', '.join(DTYPES)}")
    return found


# (quiet NaN, infinity) bit patterns; the sign bit is the top bit of the width.
FLOAT_PATTERNS: dict[str, tuple[int, int]] = {
    "f16": (0x7E00, 0x7C00),
    "bf16": (0x7FC0, 0x7F80),
    "f32": (0x7FC00000, 0x7F800000),
    "f64": (0x7FF8000000000000, 0x7FF0000000000000),
}
