"""Which elementwise primitives kernels compute: what targets with kernels are asked by passes (`Target.has_form`)."""

from __future__ import annotations

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew

#: What has no form in kernels, and what has none for float64.
WITHOUT = frozenset((ew.reduce_precision_p, ew.bessel_i1e_p))
WITHOUT_DOUBLE = frozenset((ew.asin_p, ew.erf_p, ew.erfc_p, ew.erf_inv_p))


def has_form(p: Primitive, dtype: DType) -> bool:
    """Whether kernels compute an elementwise primitive of operands of this dtype."""
    return p not in WITHOUT and not (p in WITHOUT_DOUBLE and dtype == dtypes.float64)


__all__ = ["WITHOUT", "WITHOUT_DOUBLE", "has_form"]
