"""Operations on operands whose dtypes and shapes are already decided; Python scalars take the dtype of the other one."""

from __future__ import annotations

from typing import Any

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.dtypes import DType
from quire.ir.primitives import elementwise as ew
from quire.ir.tracing import bind

from ..arrays.operands import SCALARS, Value, broadcast_to, cast, scalar_like

_BINARY = {
    "add": ew.add_p, "sub": ew.sub_p, "mul": ew.mul_p, "div": ew.div_p, "rem": ew.rem_p, "eq": ew.eq_p, "ne": ew.ne_p,
    "lt": ew.lt_p, "ge": ew.ge_p, "gt": ew.gt_p, "and": ew.and_p, "or": ew.or_p,
}  # fmt: skip


def _op(name: str) -> Any:
    p = _BINARY[name]

    def apply(x: Value, y: Value) -> Value:
        """The primitive on operands of one dtype; Python scalars take the dtype of the other operand."""
        if type(y) in SCALARS:
            y = scalar_like(y, x)
        elif type(x) in SCALARS:
            x = scalar_like(x, y)
        return bind(p, (x, y), {})

    apply.__name__ = name
    return apply


add_, sub_, mul_, div_, rem_ = map(_op, ("add", "sub", "mul", "div", "rem"))
eq_, ne_, lt_, ge_, gt_, and_, or_ = map(_op, ("eq", "ne", "lt", "ge", "gt", "and", "or"))


def select(which: Value, on_true: Value, on_false: Value) -> Value:
    """`on_true` where `which`, else `on_false`; scalars among the three take the shape of the others."""
    if type(on_true) in SCALARS:
        on_true = scalar_like(on_true, on_false)
    elif type(on_false) in SCALARS:
        on_false = scalar_like(on_false, on_true)
    shapes = [aval_of(x).shape for x in (which, on_true, on_false)]
    shape = max(shapes, key=len)
    on_true, on_false = broadcast_to(on_true, shape), broadcast_to(on_false, shape)
    return bind(ew.select_n_p, (which, on_false, on_true), {})


def no_complex(name: str, dtype: DType) -> None:
    """Raise TypeError for a complex dtype, which the function of that name does not take."""
    if dtypes.is_complex(dtype):
        raise TypeError(f"quire.numpy.{name}: complex numbers have no {name}, got dtype {dtype}")


def no_bool_ints(*args: Value) -> list[Value]:
    """bool operands as int32, the dtype in which they are divided."""
    if dtypes.is_bool(aval_of(args[0]).dtype):
        return [cast(x, dtypes.int32) for x in args]
    return list(args)
