"""The tables of derivative rules, and the helpers that make a rule of an elementwise primitive one line.

Rules are written with ordinary traced operations (the thin functions of `quire.ir.primitives`). One that has no derivative
for some parameters or operands raises NotImplementedError with the primitive's name and what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, overload

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.primitive import Primitive, RuleTable
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st
from quire.ir.primitives.sharding import sharding_constraint
from quire.ir.sharding import PartitionSpec

Value: TypeAlias = Any


class Zero:
    """A tangent or cotangent that is zero everywhere, never materialised. `aval` is the tangent's aval."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Zero({self.aval.short()})"

    def instantiate(self) -> Value:
        """The zeros as a value."""
        return instantiate_any(self)

    @staticmethod
    def from_primal_value(x: Value) -> Zero:
        """The zero tangent of a value."""
        return Zero(aval_of(x).tangent())


class Linear:
    """In a transpose rule: an operand in which the equation is linear, known only by its aval."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"UndefinedPrimal({self.aval.short()})"


# rule(primals, tangents, **params) -> (results, result tangents). Tangents are values or Zero, at least one a value.
# One result: a value and a tangent; multiple_results: a list of each.
JvpRule: TypeAlias = Callable[..., tuple[Any, Any]]
# rule(cotangents, *operands, **params) -> one cotangent for each operand: a value, a Zero, or None where the operand
# is not `Linear`. `cotangents` is the value (for multiple_results a list, whose members may be Zero).
TransposeRule: TypeAlias = Callable[..., Sequence[Any]]

jvp: RuleTable[JvpRule] = RuleTable("jvp", "forward derivative")
transpose: RuleTable[TransposeRule] = RuleTable("transpose", "transpose of a linear equation")


def is_zero(t: Any) -> bool:
    """Whether a tangent or cotangent is a symbolic `Zero`."""
    return type(t) is Zero


def instantiate(t: Any) -> Value:
    """A tangent as a value: zeros for a symbolic zero."""
    return zeros(t.aval) if type(t) is Zero else t


def instantiate_any(t: Any) -> Value:
    """`instantiate`, also where the tangent is an integer's, float0: an array of NumPy's."""
    if type(t) is Zero and t.aval.dtype == dtypes.float0:
        return np.zeros(t.aval.shape, dtypes.float0)
    return instantiate(t)


def zeros(aval: ShapedArray) -> Value:
    """Zeros of an aval, as a broadcast scalar."""
    zero: Any = np.zeros((), aval.dtype)[()]
    if aval.weak_type and aval_of(zero.item()).dtype == aval.dtype:
        zero = zero.item()
    out = st.broadcast_in_dim(zero, aval.shape, ()) if aval.shape else zero
    if aval.manual:
        from quire.ir.primitives.collectives import cast_as

        out = cast_as(out, aval, zero=True)
    return out if aval.division is None else sharding_constraint(out, aval.division)


def divided_as(value: Value, aval: ShapedArray) -> Value:
    """A cotangent divided along explicit mesh axes as what it belongs to: unreduced where that is reduced, and the reverse."""
    own = aval_of(value)
    has = aval.cotangent().division
    if own.division is None and has is None or own.shape != aval.shape:
        return value
    if has is None:
        assert own.division is not None
        has = own.division.update(spec=PartitionSpec())
    return value if own.division == has else sharding_constraint(value, has)


def add_tangents(a: Any, b: Any) -> Any:
    """The sum of two tangents, either of which may be a Zero."""
    if type(a) is Zero:
        return b
    return a if type(b) is Zero else ew.add(a, b)


# Partial derivatives of primitives of one and of two operands without parameters: what a checker knows of a lambda.
_Unary: TypeAlias = Callable[[Value, Value, Value], Value]
_Binary: TypeAlias = Callable[[Value, Value, Value, Value], Value]
_Ternary: TypeAlias = Callable[[Value, Value, Value, Value, Value], Value]


@overload
def define_jvp(p: Primitive, first: _Unary, /) -> None: ...
@overload
def define_jvp(p: Primitive, first: _Binary | None, second: _Binary | None, /) -> None: ...
@overload
def define_jvp(p: Primitive, first: _Ternary, second: _Ternary, third: _Ternary, /) -> None: ...
@overload
def define_jvp(p: Primitive, *partials: Callable[..., Value] | None) -> None: ...
def define_jvp(p: Primitive, *partials: Callable[..., Value] | None) -> None:
    """The rule of a primitive with one result from its partial derivatives.

    ``partials[i](t, ans, *operands, **params)`` is the i-th operand's tangent times the derivative; `ans` is the
    result. None where the derivative is zero.
    """

    def rule(primals: Sequence[Value], tangents: Sequence[Any], **params: Any) -> tuple[Value, Any]:
        ans = p.bind(*primals, **params)
        total: Any = Zero(aval_of(ans).tangent())
        for t, partial in zip(tangents, partials, strict=True):
            if type(t) is not Zero and partial is not None:
                total = add_tangents(total, partial(t, ans, *primals, **params))
        return ans, total

    jvp.add(p, rule)


def define_zero_jvp(*primitives: Primitive) -> None:
    """The rule of primitives whose derivative is zero wherever it exists (floor, sign, comparisons)."""

    def make(p: Primitive) -> JvpRule:
        def rule(primals: Sequence[Value], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
            out = p.bind(*primals, **params)
            if p.multiple_results:
                return out, [Zero(aval_of(x).tangent()) for x in out]
            return out, Zero(aval_of(out).tangent())

        return rule

    for p in primitives:
        jvp.add(p, make(p))


@overload
def define_linear(p: Primitive, transposed: Callable[[Value, ShapedArray], Value]) -> None: ...
@overload
def define_linear(p: Primitive, transposed: Callable[..., Value] | None = None) -> None: ...
def define_linear(p: Primitive, transposed: Callable[..., Value] | None = None) -> None:
    """Both rules of a primitive that is linear in its only operand: its jvp is itself on the tangent.

    ``transposed(ct, aval, **params)`` is the operand's cotangent; `aval` is the operand's.
    """

    def jvp_rule(primals: Sequence[Value], tangents: Sequence[Any], **params: Any) -> tuple[Value, Any]:
        (x,), (t,) = primals, tangents
        return p.bind(x, **params), p.bind(t, **params)

    jvp.add(p, jvp_rule)
    if transposed is not None:

        def transpose_rule(ct: Value, x: Any, **params: Any) -> Sequence[Any]:
            return [transposed(ct, x.aval, **params)]

        transpose.add(p, transpose_rule)


def unbroadcast(ct: Value, aval: ShapedArray) -> Value:
    """The cotangent of an operand that an elementwise primitive broadcast from a scalar: summed."""
    from quire.ir.primitives import reductions as rd

    ct_aval = aval_of(ct)
    if aval.shape == ct_aval.shape:
        return ct
    return rd.reduce_sum(ct, tuple(range(ct_aval.ndim)))
