"""Integer keys that order elements as JAX does, computed from the bits.

Dispatches run with denormals flushed, so a float comparison would call 1e-40 and 0 equal; the keys compare
the bit patterns instead. Order of floats: -inf ... -0 == 0 ... inf, then every NaN, all equal to each other.
Complex numbers have two keys, the real part first.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.builder import KernelBuilder
from ..core.dtypes import FLOAT_PATTERNS, DType
from ..core.values import Value, width


@dataclass(frozen=True)
class Key:
    """One sort key: ``part`` of the elements of ``operand``."""

    operand: int
    part: int
    dtype: DType

    @property
    def bits(self) -> int:
        """Width of the key."""
        return self.dtype.bits

    @property
    def word(self) -> str:
        """MLIR integer type of the key."""
        return f"i{self.dtype.bits}"


def keys_of(operand: int, dtype: DType) -> list[Key]:
    """The keys of one operand, most significant first."""
    return [Key(operand, part, dtype) for part in range(dtype.parts)]


def ordered(
    b: KernelBuilder,
    dtype: DType,
    word: Value,
    *,
    signed: bool,
    descending: bool = False,
    zeros_equal: bool = True,
    nan_low: bool = False,
    total: bool = False,
) -> Value:
    """The key of ``word`` (the bits of one part; scalar or vector) under signed or unsigned comparison.

    ``descending`` reverses the order. Without ``zeros_equal`` -0 comes before 0. NaNs, all equal, come after
    inf, with ``nan_low`` before -inf. ``total`` is IEEE's total order instead: -NaN, -inf, ..., -0, 0, ..., inf, NaN.
    """
    bits = width(word.type)
    top = 1 << (bits - 1)
    is_signed = dtype.signed
    if dtype.kind in ("float", "complex"):
        quiet, infinity = FLOAT_PATTERNS[dtype.scalar]
        magnitude = word & (top - 1)
        if zeros_equal and not total:
            word = b.select(b.cmp("eq", magnitude, 0), 0, word)
        if not total:
            word = b.select(b.cmp("ugt", magnitude, infinity), quiet | top if nan_low else quiet, word)
        word = word ^ (b.shra(word, bits - 1) & (top - 1))
    flip = (top if is_signed != signed else 0) ^ ((1 << bits) - 1 if descending else 0)
    return word ^ flip if flip else word


def from_ordered(b: KernelBuilder, dtype: DType, key: Value) -> Value:
    """The bits of the element whose signed, ascending, total key is ``key``: undoes :func:`ordered`."""
    bits = width(key.type)
    top = 1 << (bits - 1)
    if dtype.kind in ("float", "complex"):
        return key ^ (b.shra(key, bits - 1) & (top - 1))
    return key if dtype.signed else key ^ top


def unfold(b: KernelBuilder, dtype: DType, word: Value) -> Value:
    """A reversible form of ``word`` from which :func:`merged` makes the unsigned key in few operations.

    Floats: the unsigned total order, rotated so that -inf is 0 and NaNs of both signs are on top.
    """
    bits = width(word.type)
    top = 1 << (bits - 1)
    if dtype.kind in ("float", "complex"):
        lowest = _minus_infinity(dtype)
        return (word ^ (b.shra(word, bits - 1) | top)) - lowest
    return word ^ top if dtype.signed else word


def fold_back(b: KernelBuilder, dtype: DType, form: Value) -> Value:
    """The inverse of :func:`unfold`."""
    bits = width(form.type)
    top = 1 << (bits - 1)
    if dtype.kind in ("float", "complex"):
        total = form + _minus_infinity(dtype)
        return total ^ (b.shra(total ^ top, bits - 1) | top)
    return form ^ top if dtype.signed else form


def merged(b: KernelBuilder, dtype: DType, form: Value, *, descending: bool, total: bool = False) -> Value:
    """The unsigned key of :func:`unfold`'s form: the NaNs become one, the zeros too; ``total``: as in `ordered`."""
    bits = width(form.type)
    if dtype.kind in ("float", "complex"):
        lowest = _minus_infinity(dtype)
        infinity = FLOAT_PATTERNS[dtype.scalar][1]
        if total:
            form = form + lowest
        else:
            form = b.umin(form, (1 << (bits - 1)) + infinity + 1 - lowest)
            minus_zero = b.cmp("eq", form, (1 << (bits - 1)) - 1 - lowest)
            form = form + b.cast(minus_zero, form.type, signed=False)
    return form ^ ((1 << bits) - 1) if descending else form


def least_form(dtype: DType) -> int:
    """The form of :func:`unfold` that comes first in the total order."""
    return -_minus_infinity(dtype) % (1 << dtype.bits) if dtype.kind == "float" else 0


def _minus_infinity(dtype: DType) -> int:
    """-inf in the unsigned total order."""
    return (1 << (dtype.bits - 1)) - 1 - FLOAT_PATTERNS[dtype.scalar][1]
