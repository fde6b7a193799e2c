"""Lowering by formulas: a rule is a Python function of numbers, traced and lowered with the operations it uses.

    @formula
    def cosh(x: Num) -> Num:
        t = exp(abs(x))
        return 0.5 * t + 0.5 / t

Where IREE's own operation is wrong or coarse, the formula says what is computed instead. `by_dtype` chooses the rule
for the operands' dtype; half-precision operands are computed in float32 and rounded once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.dtypes import DType
from quire.ir.jaxpr import all_eqns
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives.control_flow import while_p

from ..kernels import KernelTarget
from ..kernels.core.errors import NoKernel
from ..kernels.fused.elementwise import ElementwiseKernel, complex_kernel, function_kernel
from ..targets import Target
from . import hlo
from .kernel_calls import attempt, call
from .loop_kernels import expander
from .lowering import FORMULAS, Ctx, LoweringRule, lowering, traced_rule

HALF = (dtypes.float16, dtypes.bfloat16)


class Num:
    """A traced value with Python's operators, for formulas. Comparisons give Nums of bool, with ``& | ~``."""

    __slots__ = ("value",)
    __array_ufunc__ = None  # NumPy's scalars leave the operators to this class

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def dtype(self) -> DType:
        """The value's dtype."""
        return aval_of(self.value).dtype

    @property
    def aval(self) -> ShapedArray:
        """The value's aval."""
        return aval_of(self.value)

    def __add__(self, y: Any) -> Num:
        return Num(ew.add(self.value, raw(y)))

    def __radd__(self, y: Any) -> Num:
        return Num(ew.add(raw(y), self.value))

    def __sub__(self, y: Any) -> Num:
        return Num(ew.sub(self.value, raw(y)))

    def __rsub__(self, y: Any) -> Num:
        return Num(ew.sub(raw(y), self.value))

    def __mul__(self, y: Any) -> Num:
        return Num(ew.mul(self.value, raw(y)))

    def __rmul__(self, y: Any) -> Num:
        return Num(ew.mul(raw(y), self.value))

    def __truediv__(self, y: Any) -> Num:
        return Num(ew.div(self.value, raw(y)))

    def __rtruediv__(self, y: Any) -> Num:
        return Num(ew.div(raw(y), self.value))

    def __neg__(self) -> Num:
        return Num(ew.neg(self.value))

    def __abs__(self) -> Num:
        return Num(ew.abs(self.value))

    def __lt__(self, y: Any) -> Num:
        return Num(ew.lt(self.value, raw(y)))

    def __le__(self, y: Any) -> Num:
        return Num(ew.le(self.value, raw(y)))

    def __gt__(self, y: Any) -> Num:
        return Num(ew.gt(self.value, raw(y)))

    def __ge__(self, y: Any) -> Num:
        return Num(ew.ge(self.value, raw(y)))

    def eq(self, y: Any) -> Num:
        """Where both are equal."""
        return Num(ew.eq(self.value, raw(y)))

    def ne(self, y: Any) -> Num:
        """Where they differ; NaN differs from itself."""
        return Num(ew.ne(self.value, raw(y)))

    def __and__(self, y: Any) -> Num:
        return Num(ew.bitwise_and(self.value, raw(y)))

    def __or__(self, y: Any) -> Num:
        return Num(ew.bitwise_or(self.value, raw(y)))

    def __xor__(self, y: Any) -> Num:
        return Num(ew.bitwise_xor(self.value, raw(y)))

    def __invert__(self) -> Num:
        return Num(ew.bitwise_not(self.value))

    def __lshift__(self, y: Any) -> Num:
        return Num(ew.shift_left(self.value, raw(y)))

    def __rshift__(self, y: Any) -> Num:
        return Num(ew.shift_right_logical(self.value, raw(y)))

    def astype(self, dtype: DType) -> Num:
        """The value converted to a dtype."""
        return Num(ew.convert_element_type(self.value, dtype))

    def bits(self) -> Num:
        """The bits as a signed integer of the same width."""
        return Num(ew.bitcast_convert_type(self.value, np.dtype(f"i{self.dtype.itemsize}")))

    @property
    def real(self) -> Num:
        """The real part."""
        return Num(ew.real(self.value))

    @property
    def imag(self) -> Num:
        """The imaginary part."""
        return Num(ew.imag(self.value))


def raw(x: Any) -> Any:
    """The traced value of a Num; anything else as it is."""
    return x.value if isinstance(x, Num) else x


def _lift(f: Callable[..., Any]) -> Callable[..., Num]:
    def apply(*args: Any) -> Num:
        return Num(f(*map(raw, args)))

    apply.__name__ = f.__name__
    return apply


where, exp, log, log1p, expm1, sqrt, sin, cos, tan, sinh, cosh, atan2, asinh, floor = map(
    _lift,
    (ew.where, ew.exp, ew.log, ew.log1p, ew.expm1, ew.sqrt, ew.sin, ew.cos, ew.tan, ew.sinh, ew.cosh,
     ew.atan2, ew.asinh, ew.floor),
)  # fmt: skip
maximum, minimum, complex_, lgamma, digamma, is_finite, round_ = map(
    _lift, (ew.max, ew.min, ew.complex, ew.lgamma, ew.digamma, ew.is_finite, lambda x: ew.round(x, 1))
)


def const(value: float, like: Num) -> Any:
    """A scalar of another number's dtype, for places where both operands would be Python's."""
    return np.asarray(value, like.dtype)[()]


def polynomial(x: Num, coefficients: tuple[float, ...]) -> Num:
    """Horner's rule, the highest power first."""
    total: Any = coefficients[0]
    for c in coefficients[1:]:
        total = total * x + c
    return total


def signbit(x: Num) -> Num:
    """Whether the sign bit is set: also that of -0."""
    return x.bits() < 0


def with_sign(x: Num, sign: Num) -> Num:
    """x >= 0 with the sign of another number, -0 included."""
    return where(signbit(sign), -x, x)


def is_nan(x: Num) -> Num:
    """Where x is NaN."""
    return x.ne(x)


# -- rules ----------------------------------------------------------------------------------------------------------------


def formula(f: Callable[..., Any]) -> LoweringRule:
    """The lowering rule that traces a function of Nums (and the primitive's parameters) and lowers the trace."""
    # float64 steps occur in formulas for float32, whether the user's program may use it or not.
    on_raw = lambda *xs, **params: raw(f(*map(Num, xs), **params))  # noqa: E731
    rule = traced_rule(on_raw, enable_x64=True, elementwise=True)
    rule.__name__ = f.__name__
    return rule


def spread(ctx: Ctx, *operands: Any) -> list[Any]:
    """Scalar operands broadcast to the result's shape."""
    shape = ctx.avals_out[0].shape
    return [x if a.shape == shape else hlo.broadcast(x, shape, ()) for x, a in zip(operands, ctx.avals_in)]


def direct(build: Callable[..., Any]) -> LoweringRule:
    """The rule of an operation that StableHLO has and IREE does right."""

    def rule(ctx: Ctx, *operands: Any) -> Any:
        return build(*spread(ctx, *operands))

    return rule


def arithmetic(build: Callable[..., Any]) -> LoweringRule:
    """The rule of an operation whose result depends on how its operands were rounded; see `hlo.widened` for bfloat16."""

    def rule(ctx: Ctx, *operands: Any) -> Any:
        out = build(*(hlo.widened(x) for x in spread(ctx, *operands)))
        dtype = ctx.avals_out[0].dtype
        return hlo.convert(out, dtype) if dtype == dtypes.bfloat16 else out

    return rule


def has_libm(ctx: Ctx) -> bool:
    """Whether the target has transcendental functions of float64."""
    return target_has_libm(ctx.target)


def target_has_libm(target: Target) -> bool:
    """As `has_libm`, of a target."""
    return not target.spirv


def of_float64(rule: LoweringRule) -> LoweringRule:
    """The rule, where the target has functions of float64 at all; a formula stays one."""

    def checked(ctx: Ctx, *operands: Any) -> Any:
        if not has_libm(ctx):
            raise ctx.unsupported("it on float64", "convert the operand to float32")
        return rule(ctx, *operands)

    if rule in FORMULAS:
        FORMULAS[checked] = FORMULAS[rule]
    return checked


def libm(build: Callable[..., Any]) -> LoweringRule:
    """The rule of a float64 function that IREE leaves to the system's math library."""
    return of_float64(direct(build))


def by_dtype(
    p: Primitive,
    *,
    f32: LoweringRule | None = None,
    f64: LoweringRule | None = None,
    complex: LoweringRule | None = None,
    half: LoweringRule | None = None,
    other: LoweringRule | None = None,
) -> None:
    """Register a primitive's lowering: a rule for each kind of the first operand's dtype.

    Without `half`, float16 and bfloat16 operands are computed by the rule of float32 and rounded once; `f64` and
    `complex` default to the rule of float32 (its formula), `other` is for integers and bool.
    """
    f64 = f32 if f64 is None else f64

    def choice(dtype: DType) -> LoweringRule | None:
        return (
            complex if dtypes.is_complex(dtype) else half if dtype in HALF
            else f64 if dtype == dtypes.float64 else f32 if dtype == dtypes.float32 else other
        )  # fmt: skip

    def formula_for(target: Target, p: Primitive, avals: Sequence[ShapedArray], params: Mapping[str, Any]) -> Any:
        chosen = FORMULAS.get(choice(avals[0].dtype))  # type: ignore[arg-type]
        return None if chosen is None else chosen(target, p, avals, params)

    def rule(ctx: Ctx, *operands: Any, **params: Any) -> Any:
        dtype = ctx.avals_in[0].dtype
        if dtype in HALF and half is None:
            return _through_float32(ctx, operands, f32, params)
        chosen = choice(dtype)
        assert chosen is not None, f"{p.name} has no lowering for {dtype}"
        if ctx.target.on_gpu and dtypes.is_float(dtype):
            made = _iterated_kernel(ctx, p, operands, params)
            if made is not None:
                return made
        if dtypes.is_complex(dtype) and chosen in FORMULAS:
            made = _complex_kernel(ctx, p, operands, params)
            if made is not None:
                return made
        return chosen(ctx, *operands, **params)

    lowering.add(p, rule)
    FORMULAS[rule] = formula_for


def _complex_kernel(ctx: Ctx, p: Primitive, operands: Sequence[Any], params: Mapping[str, Any]) -> Any | None:
    """A function of complex arrays as a kernel, where there is one."""
    kernel = attempt(
        ctx,
        lambda target: complex_kernel(p, params, ctx.avals_in, ctx.avals_out[0], target, expander(ctx.target)),
    )
    return None if isinstance(kernel, NoKernel) else call(ctx, kernel.kernel, operands, kernel.scalars)[0]


def _iterated_kernel(ctx: Ctx, p: Primitive, operands: Sequence[Any], params: Mapping[str, Any]) -> Any | None:
    """On a GPU: a function that is iterated until it has converged, as a kernel in which each thread ends by itself.

    None for other functions. As a loop of StableHLO the host would ask the device at each turn whether all have ended.
    """

    def make(target: KernelTarget) -> ElementwiseKernel:
        expand = expander(ctx.target)
        formula = expand(p, tuple(a.dtype for a in ctx.avals_in), params)
        if formula is None or not any(e.primitive is while_p for e in all_eqns(formula)):
            raise NoKernel("it is not iterated")
        out = ctx.avals_out[0]
        return function_kernel(p, params, [a.update(shape=out.shape) for a in ctx.avals_in], out, target, expand)

    kernel = attempt(ctx, make)
    return None if isinstance(kernel, NoKernel) else call(ctx, kernel.kernel, spread(ctx, *operands), kernel.scalars)[0]


def _through_float32(ctx: Ctx, operands: tuple[Any, ...], rule: LoweringRule | None, params: dict[str, Any]) -> Any:
    assert rule is not None

    def widened(a: ShapedArray) -> ShapedArray:
        return a.update(dtype=dtypes.float32) if a.dtype in HALF else a

    inner = dataclasses.replace(
        ctx, avals_in=[widened(a) for a in ctx.avals_in], avals_out=[widened(a) for a in ctx.avals_out]
    )
    wide = [hlo.convert(hlo.widened(x), a.dtype) for x, a in zip(operands, inner.avals_in)]
    out = rule(inner, *wide, **params)
    out = out[0] if isinstance(out, list) else out
    return hlo.convert(out, ctx.avals_out[0].dtype)
