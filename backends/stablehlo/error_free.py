"""Sums and differences for drivers that reassociate: what an error-free sum computes must not be simplified to nothing.

``(x + y) - y`` is x to a compiler that takes floats for real numbers; here it is how x is rounded, or the error of a sum
is found. In SPIR-V it is forbidden (`iree/exact_floats.py`); but what is computed of it is wrong altogether where a driver,
or a translator between it and the program, does not heed that. So the inner sum passes through its bits, with which something
is done that gives the same bits, and of which a driver cannot know that it does.
"""

from __future__ import annotations

from typing import Any

import iree.compiler.ir as mlir
import numpy as np

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.primitives import elementwise as ew

from . import hlo
from .formulas import Num, arithmetic, spread
from .lowering import Ctx, lowering

Value = Any

_SUMS = ("stablehlo.add", "stablehlo.subtract")
#: What a driver, which sees numbers only, does not see.
_MOVEMENTS = ("stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.optimization_barrier")


def opaque(x: Value, dtype: DType) -> Value:
    """x, of which a driver cannot know how it was computed.

    An odd number's square is 1 modulo 8, so its bit of four is 0: that is found by no analysis of single bits.
    """
    word = np.dtype(f"i{dtype.itemsize}")
    bits = hlo.bitcast(x, word)
    number = hlo.or_(bits, hlo.full_like(bits, 1, word))
    zero = hlo.and_(hlo.multiply(number, number), hlo.full_like(bits, 4, word))
    return hlo.bitcast(hlo.xor(bits, zero), dtype)


def opaque_number(x: Num) -> Num:
    """`opaque` in a formula, of float32."""
    bits = x.bits()
    number = bits | np.int32(1)
    zero = Num(ew.mul(number.value, number.value)) & np.int32(4)
    return Num(ew.bitcast_convert_type((bits ^ zero).value, x.dtype))


def _sum(build: Any) -> Any:
    plain = arithmetic(build)

    def rule(ctx: Ctx, x: Value, y: Value) -> Value:
        dtype = ctx.avals_out[0].dtype
        if not (ctx.target.reassociates and dtypes.is_float(dtype)):
            return plain(ctx, x, y)
        x, y = spread(ctx, x, y)
        if _undoes(x, y):
            x = opaque(x, dtype)
        if _undoes(y, x):
            y = opaque(y, dtype)
        return build(x, y)

    return rule


def _undoes(inner: Value, other: Value) -> bool:
    """Whether `inner` is a sum or difference of the other operand: then one could cancel the other.

    Two constants count, as they would be added to each other.
    """
    made = _made(inner)
    if made is None or made.name not in _SUMS:
        return False
    other = _still(other)
    return any(_same(_still(part), other) for part in made.operands)


def _same(x: Value, y: Value) -> bool:
    return x == y or (_is_constant(x) and _is_constant(y))


def _still(x: Value) -> Value:
    """The numbers of x before they were moved."""
    made = _operation(x)
    while made is not None and made.name in _MOVEMENTS:
        x = made.operands[mlir.OpResult(x).result_number]
        made = _operation(x)
    return x


def _made(x: Value) -> Any | None:
    return _operation(_still(x))


def _operation(x: Value) -> Any | None:
    owner = x.owner
    return None if isinstance(owner, mlir.Block) else owner


def _is_constant(x: Value) -> bool:
    made = _operation(x)
    return made is not None and made.name == "stablehlo.constant"


lowering.add(ew.add_p, _sum(hlo.add))
lowering.add(ew.sub_p, _sum(hlo.subtract))
