"""Derivative rules of elementwise primitives.

``t`` is the operand's tangent, ``ans`` the primitive's result. Formulas without a source are those of any table of
derivatives. Complex functions are holomorphic, so the same formulas hold; those that are not (abs, real, imag, conj,
sign) say what they do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st
from quire.ir.source import current_source, where

from .rules import Linear, Zero, define_jvp, define_linear, define_zero_jvp, jvp, transpose, unbroadcast, zeros

Value = Any
_CONST_2_SQRT_PI = 2.0 / math.sqrt(math.pi)


def _dtype(x: Value) -> Any:
    return aval_of(x).dtype


def _const(value: float, like: Value) -> Any:
    """A number of another value's type: of weak type if that is, so that derivatives have the types of what they are of."""
    aval = aval_of(like)
    number = np.asarray(value, aval.dtype)[()]
    if aval.weak_type:
        plain = number.item()
        return plain if aval_of(plain).dtype == aval.dtype else number
    return number


def _spread(t: Value, ans: Value) -> Value:
    """A tangent of a scalar operand, in the result's shape."""
    shape = aval_of(ans).shape
    return t if aval_of(t).shape == shape else st.broadcast_in_dim(t, shape, ())


# -- linear in one or both operands -------------------------------------------------------------------------------------

define_linear(ew.neg_p, lambda ct, aval: ew.neg(ct))
define_linear(ew.real_p, lambda ct, aval: ew.complex(ct, zeros(aval_of(ct))))
# imag(z) has the transpose -i ct in JAX's convention, where transposes do not conjugate.
define_linear(ew.imag_p, lambda ct, aval: ew.neg(ew.complex(zeros(aval_of(ct)), ct)))
define_linear(ew.copy_p, lambda ct, aval: ew.copy(ct))


def _conj_transpose(ct: Value, aval: ShapedArray) -> Value:
    return ew.conj(ct)


define_linear(ew.conj_p, _conj_transpose)


def _add_jvp(p: Primitive, sign: int) -> None:
    def first(t: Value, ans: Value, x: Value, y: Value) -> Value:
        return _spread(t, ans)

    def second(t: Value, ans: Value, x: Value, y: Value) -> Value:
        return _spread(t if sign > 0 else ew.neg(t), ans)

    def rule(primals: Sequence[Value], tangents: Sequence[Any]) -> tuple[Value, Any]:
        ans = p.bind(*primals)
        tx, ty = tangents
        if type(tx) is Zero:
            return ans, second(ty, ans, *primals)
        if type(ty) is Zero:
            return ans, first(tx, ans, *primals)
        return ans, p.bind(tx, ty)

    jvp.add(p, rule)

    def transposed(ct: Value, x: Any, y: Any) -> Sequence[Any]:
        out: list[Any] = [None, None]
        if type(x) is Linear:
            out[0] = unbroadcast(ct, x.aval)
        if type(y) is Linear:
            out[1] = unbroadcast(ct if sign > 0 else ew.neg(ct), y.aval)
        return out

    transpose.add(p, transposed)


_add_jvp(ew.add_p, 1)
_add_jvp(ew.sub_p, -1)

define_jvp(ew.mul_p, lambda t, ans, x, y: ew.mul(t, y), lambda t, ans, x, y: ew.mul(x, t))


@transpose(ew.mul_p)
def _mul_transpose(ct: Value, x: Any, y: Any) -> Sequence[Any]:
    if type(x) is Linear:
        return [unbroadcast(y if _is_one(ct, y) else ew.mul(ct, y), x.aval), None]
    return [None, unbroadcast(x if _is_one(ct, x) else ew.mul(x, ct), y.aval)]


def _is_one(ct: Value, factor: Value) -> bool:
    """Whether a product with the cotangent is the factor: the unit cotangent that `grad` starts from."""
    if not isinstance(ct, np.generic | float | complex) or ct != 1:
        return False
    a, b = aval_of(ct), aval_of(factor)
    return a.dtype == b.dtype and (a.weak_type or not b.weak_type)


define_jvp(
    ew.div_p,
    lambda t, ans, x, y: ew.div(t, y),
    lambda t, ans, x, y: ew.mul(ew.mul(ew.neg(ans), t), ew.div(_const(1, y), y)),
)


@transpose(ew.div_p)
def _div_transpose(ct: Value, x: Any, y: Any) -> Sequence[Any]:
    return [unbroadcast(ew.div(ct, y), x.aval), None]


def _complex_jvp(primals: Sequence[Value], tangents: Sequence[Any]) -> tuple[Value, Any]:
    ans = ew.complex(*primals)
    shape = aval_of(ans).shape
    parts = [
        st.broadcast_in_dim(zeros(t.aval), shape, ()) if type(t) is Zero and not t.aval.shape and shape
        else zeros(t.aval) if type(t) is Zero else t
        for t in tangents
    ]  # fmt: skip
    return ans, ew.complex(*parts)


jvp.add(ew.complex_p, _complex_jvp)


@transpose(ew.complex_p)
def _complex_transpose(ct: Value, x: Any, y: Any) -> Sequence[Any]:
    return [
        unbroadcast(ew.real(ct), x.aval) if type(x) is Linear else None,
        unbroadcast(ew.imag(ew.neg(ct)), y.aval) if type(y) is Linear else None,
    ]


def _convert_jvp(
    primals: Sequence[Value], tangents: Sequence[Any], *, new_dtype: Any, weak_type: bool
) -> tuple[Value, Any]:
    (x,), (t,) = primals, tangents
    if new_dtype in dtypes.NARROW_FLOATS:
        raise NotImplementedError(
            f"convert_element_type: derivatives do not pass through numbers of dtype {new_dtype}{where(current_source())}: give the "
            "function that rounds a rule of its own (custom_vjp), or stop the gradient before it (lax.stop_gradient)"
        )
    out = ew.convert_element_type_p.bind(x, new_dtype=new_dtype, weak_type=weak_type)
    if not dtypes.is_inexact(new_dtype):
        return out, Zero(aval_of(out).tangent())
    return out, ew.convert_element_type_p.bind(t, new_dtype=new_dtype, weak_type=weak_type)


jvp.add(ew.convert_element_type_p, _convert_jvp)


@transpose(ew.convert_element_type_p)
def _convert_transpose(ct: Value, x: Any, *, new_dtype: Any, weak_type: bool) -> Sequence[Any]:
    return [ew.convert_element_type(ct, x.aval.dtype, weak_type=x.aval.weak_type)]


def _reduce_precision_transpose(ct: Value, aval: ShapedArray, *, exponent_bits: int, mantissa_bits: int) -> Value:
    return ew.reduce_precision(ct, exponent_bits, mantissa_bits)


define_linear(ew.reduce_precision_p, _reduce_precision_transpose)


# -- selection --------------------------------------------------------------------------------------------------------------


@jvp(ew.select_n_p)
def _select_jvp(primals: Sequence[Value], tangents: Sequence[Any]) -> tuple[Value, Any]:
    which, *cases = primals
    _, *ts = tangents
    ans = ew.select_n(which, *cases)
    if all(type(t) is Zero for t in ts):
        return ans, Zero(aval_of(ans).tangent())
    return ans, ew.select_n(which, *[zeros(t.aval) if type(t) is Zero else t for t in ts])


@transpose(ew.select_n_p)
def _select_transpose(ct: Value, which: Value, *cases: Any) -> Sequence[Any]:
    zero = zeros(aval_of(ct))
    return [
        None,
        *(
            ew.select_n(which, *[ct if i == j else zero for j in range(len(cases))]) if type(c) is Linear else None
            for i, c in enumerate(cases)
        ),
    ]


define_jvp(
    ew.clamp_p,
    lambda t, ans, low, x, high: ew.where(ew.gt(_spread(low, ans), x), _spread(t, ans), 0.0),
    lambda t, ans, low, x, high: ew.where(
        ew.bitwise_and(ew.gt(x, _spread(low, ans)), ew.lt(x, _spread(high, ans))), t, 0.0
    ),
    lambda t, ans, low, x, high: ew.where(ew.lt(_spread(high, ans), x), _spread(t, ans), 0.0),
)


def _extremum(p: Primitive, wins: Callable[[Value, Value], Value]) -> None:
    """The rule of an extremum: the share of an operand is 1 where it wins, 1/2 where the other is equal.

    The operands are compared with each other, not with the extremum: that may have been computed elsewhere.
    """

    def share(x: Value, y: Value, ans: Value) -> Value:
        x, y = _spread(x, ans), _spread(y, ans)
        half = ew.where(ew.eq(x, y), _const(0.5, ans), _const(0, ans))
        return ew.where(wins(x, y), _const(1, ans), half)

    define_jvp(
        p,
        lambda t, ans, x, y: ew.mul(t, share(x, y, ans)),
        lambda t, ans, x, y: ew.mul(t, share(y, x, ans)),
    )


_extremum(ew.max_p, ew.gt)
_extremum(ew.min_p, ew.lt)


# -- powers, exponentials, logarithms ------------------------------------------------------------------------------------------


def _integer_pow_partial(t: Value, ans: Value, x: Value, *, y: int) -> Value:
    if y == 0:
        return zeros(aval_of(x).strong())
    slope = x if y == 2 else ew.integer_pow(x, y - 1)
    return ew.mul(t, ew.mul(_const(y, x), slope))


define_jvp(ew.integer_pow_p, _integer_pow_partial)
define_jvp(ew.square_p, lambda t, ans, x: ew.mul(t, ew.mul(_const(2, x), x)))


def _pow_base(t: Value, ans: Value, x: Value, y: Value) -> Value:
    # y x^(y-1): at x = 0, y = 0 it is NaN for inexact y and 0 for integers, as in JAX.
    one = _dtype(y).type(1)  # of y's dtype, which may be a number; of strong type, as JAX's derivative is
    if not dtypes.is_integer(_dtype(y)):
        return ew.mul(t, ew.mul(y, ew.pow(x, ew.sub(y, one))))
    factor = ew.convert_element_type(y, _dtype(x))
    slope = ew.pow(x, ew.where(ew.eq(y, _const(0, y)), one, ew.sub(y, one)))
    return ew.mul(t, ew.mul(factor, slope))


def _pow_exponent(t: Value, ans: Value, x: Value, y: Value) -> Value:
    # log(x) x^y, and 0 at x = 0 where y > 0.
    base = ew.where(ew.eq(x, _const(0, x)), _dtype(x).type(1), x)
    return ew.mul(t, ew.mul(ew.log(base), ans))


define_jvp(ew.pow_p, _pow_base, _pow_exponent)
define_jvp(ew.exp_p, lambda t, ans, x: ew.mul(t, ans))
define_jvp(ew.exp2_p, lambda t, ans, x: ew.mul(_const(math.log(2), x), ew.mul(t, ans)))
define_jvp(ew.expm1_p, lambda t, ans, x: ew.mul(t, ew.exp(x)))  # ans + 1 cancels far below 0
define_jvp(ew.log_p, lambda t, ans, x: ew.div(t, x))
define_jvp(ew.log1p_p, lambda t, ans, x: ew.div(t, ew.add(x, _const(1, x))))
define_jvp(ew.logistic_p, lambda t, ans, x: ew.mul(t, ew.mul(ans, ew.sub(_const(1, x), ans))))
define_jvp(ew.sqrt_p, lambda t, ans, x: ew.mul(t, ew.div(_const(0.5, x), ans)))
define_jvp(ew.rsqrt_p, lambda t, ans, x: ew.mul(t, ew.mul(_const(-0.5, x), ew.div(ans, x))))
define_jvp(ew.cbrt_p, lambda t, ans, x: ew.mul(t, ew.mul(_const(1 / 3, x), ew.integer_pow(ans, -2))))


# -- trigonometry -------------------------------------------------------------------------------------------------------------


def _one_minus_square(x: Value) -> Value:
    return ew.mul(ew.sub(_const(1, x), x), ew.add(_const(1, x), x))


def _one_plus_square(x: Value) -> Value:
    return ew.add(_const(1, x), ew.mul(x, x))


define_jvp(ew.sin_p, lambda t, ans, x: ew.mul(t, ew.cos(x)))
define_jvp(ew.cos_p, lambda t, ans, x: ew.neg(ew.mul(t, ew.sin(x))))
define_jvp(ew.tan_p, lambda t, ans, x: ew.mul(t, _one_plus_square(ans)))
define_jvp(ew.asin_p, lambda t, ans, x: ew.mul(t, ew.rsqrt(_one_minus_square(x))))
define_jvp(ew.acos_p, lambda t, ans, x: ew.neg(ew.mul(t, ew.rsqrt(_one_minus_square(x)))))
define_jvp(ew.atan_p, lambda t, ans, x: ew.div(t, _one_plus_square(x)))
define_jvp(ew.sinh_p, lambda t, ans, x: ew.mul(t, ew.cosh(x)))
define_jvp(ew.cosh_p, lambda t, ans, x: ew.mul(t, ew.sinh(x)))
define_jvp(ew.tanh_p, lambda t, ans, x: ew.mul(t, _one_minus_square(ans)))
define_jvp(ew.asinh_p, lambda t, ans, x: ew.mul(t, ew.rsqrt(_one_plus_square(x))))
define_jvp(
    ew.acosh_p,
    lambda t, ans, x: (
        ew.mul(t, ew.rsqrt(ew.mul(ew.sub(x, _const(1, x)), ew.add(x, _const(1, x)))))
        if not dtypes.is_complex(_dtype(x))
        # the branch of the root that acosh itself has
        else ew.mul(t, ew.mul(ew.rsqrt(ew.sub(x, _const(1, x))), ew.rsqrt(ew.add(x, _const(1, x)))))
    ),
)
define_jvp(ew.atanh_p, lambda t, ans, x: ew.div(t, _one_minus_square(x)))


def _atan2_denominator(y: Value, x: Value) -> Value:
    return ew.add(ew.mul(x, x), ew.mul(y, y))


define_jvp(
    ew.atan2_p,
    lambda t, ans, y, x: ew.mul(t, ew.div(x, _atan2_denominator(y, x))),
    lambda t, ans, y, x: ew.mul(t, ew.neg(ew.div(y, _atan2_denominator(y, x)))),
)


# -- special functions ----------------------------------------------------------------------------------------------------------

define_jvp(ew.erf_p, lambda t, ans, x: ew.mul(_const(_CONST_2_SQRT_PI, x), ew.mul(t, ew.exp(ew.neg(ew.mul(x, x))))))
define_jvp(ew.erfc_p, lambda t, ans, x: ew.mul(_const(-_CONST_2_SQRT_PI, x), ew.mul(t, ew.exp(ew.neg(ew.mul(x, x))))))
define_jvp(ew.erf_inv_p, lambda t, ans, x: ew.mul(_const(1 / _CONST_2_SQRT_PI, x), ew.mul(t, ew.exp(ew.mul(ans, ans)))))
define_jvp(ew.lgamma_p, lambda t, ans, x: ew.mul(t, ew.digamma(x)))
define_jvp(ew.digamma_p, lambda t, ans, x: ew.mul(t, ew.polygamma(_const(1, x), x)))
define_jvp(ew.polygamma_p, None, lambda t, ans, m, x: ew.mul(t, ew.polygamma(ew.add(m, _const(1, m)), x)))
# d/dq zeta(x, q) = -x zeta(x + 1, q); NIST DLMF 25.11.17
define_jvp(ew.zeta_p, None, lambda t, ans, x, q: ew.mul(t, ew.mul(ew.neg(x), ew.zeta(ew.add(x, _const(1, x)), q))))
# exp(-|x|) I0(x): the derivative of I0 is I1; that of I1 is I0 - I1 / x
define_jvp(ew.bessel_i0e_p, lambda t, ans, x: ew.mul(t, ew.sub(ew.bessel_i1e(x), ew.mul(ew.sign(x), ans))))


# Of the derivative of I1, in x**2: (2k + 1) / (2**(2k + 1) k! (k + 1)!), the highest power first (NIST DLMF 10.25.2).
_I1_SLOPE = tuple(
    (2 * k + 1) / (2 ** (2 * k + 1) * math.factorial(k) * math.factorial(k + 1)) for k in range(9, -1, -1)
)


def i1_slope(x: Value) -> Value:
    """The derivative of I1 for abs(x) up to 1, by its series."""
    return _polynomial(ew.mul(x, x), _I1_SLOPE)


def _i1e_partial(t: Value, ans: Value, x: Value) -> Value:
    """Near 0 by the series: the derivative of I1 / x, which further derivatives hold, cancels there."""
    near, zero, one = ew.lt(ew.abs(x), _const(1, x)), _const(0, x), _const(1, x)
    small, safe = ew.where(near, x, zero), ew.where(near, one, x)
    slope = ew.sub(ew.mul(ew.exp(ew.neg(ew.abs(small))), i1_slope(small)), ew.mul(ew.sign(small), ans))
    far = ew.sub(ew.bessel_i0e(safe), ew.mul(ans, ew.add(ew.sign(safe), ew.div(one, safe))))
    return ew.mul(t, ew.where(near, slope, far))


define_jvp(ew.bessel_i1e_p, _i1e_partial)


_STIRLING_LEAST = 20.0
# Of ..., 1/a^3, 1/a: log gamma(a) less its leading terms (NIST DLMF 5.11.1), the highest first.
_STIRLING = (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
_ARTANH = tuple(1.0 / (2 * k + 1) for k in range(15, 0, -1))


def _polynomial(x: Value, coefficients: tuple[float, ...]) -> Value:
    """Horner's rule, the highest power first."""
    total: Value = _const(coefficients[0], x)
    for c in coefficients[1:]:
        total = ew.add(ew.mul(total, x), _const(c, x))
    return total


def _log_excess(mu: Value, ratio: Value) -> Value:
    """mu - log(1 + mu), where ratio is 1 + mu rounded once.

    By s = mu / (2 + mu) where that is nearly one: log(1 + mu) is 2 artanh(s), and mu - 2s is mu s.
    """
    near, zero, one, two = ew.lt(ew.abs(mu), _const(0.4, mu)), _const(0, mu), _const(1, mu), _const(2, mu)
    m, far = ew.where(near, mu, zero), ew.where(near, one, ratio)
    s = ew.div(m, ew.add(two, m))
    square = ew.mul(s, s)
    series = ew.mul(s, ew.sub(m, ew.mul(ew.mul(two, square), _polynomial(square, _ARTANH))))
    return ew.where(near, series, ew.sub(mu, ew.log(far)))


def _stirling_series(a: Value) -> Value:
    """`_stirling_rest` for a from `_STIRLING_LEAST` on."""
    inverse = ew.div(_const(1, a), a)
    return ew.mul(inverse, _polynomial(ew.mul(inverse, inverse), _STIRLING))


def _stirling_rest(a: Value) -> Value:
    """log gamma(a) less (a - 1/2) log a - a + log(2 pi) / 2: a small number for large a (NIST DLMF 5.11.1)."""
    large, one, half = ew.ge(a, _const(_STIRLING_LEAST, a)), _const(1, a), _const(0.5, a)
    few, many = ew.where(large, one, a), ew.where(large, a, _const(_STIRLING_LEAST, a))
    leading = ew.sub(ew.mul(ew.sub(few, half), ew.log(few)), few)
    direct = ew.sub(ew.lgamma(few), ew.add(leading, _const(0.5 * math.log(2 * math.pi), a)))
    return ew.where(large, _stirling_series(many), direct)


def _logarithm_and_end(x: Value, power: Value) -> tuple[Value, Value]:
    """A number and a factor: x^power is exp(the number) times the factor, which is 1 but where x is 0.

    There the power is no exponential: its derivatives would be those of a logarithm that is infinite. Those of x^0 and x^1 are
    left to no power either: the derivative of 0^0 by its base is NaN.
    """
    one = _const(1, x)
    zero, flat, straight = ew.eq(x, _const(0, x)), ew.eq(power, _const(0, x)), ew.eq(power, one)
    end = ew.where(zero, x, one)
    bent = ew.pow(ew.where(ew.bitwise_or(flat, straight), one, end), power)
    factor = ew.where(flat, one, ew.where(straight, end, bent))
    return ew.mul(power, ew.log(ew.where(zero, one, x))), factor


def _gamma_density(a: Value, x: Value) -> Value:
    """x^(a-1) e^-x / gamma(a): the derivative of igamma by x (NIST DLMF 8.8.13).

    For large a by Stirling's series: a log x, x and log gamma(a) are large then, their sum is not.
    """
    one, least, infinite = _const(1, a), _const(_STIRLING_LEAST, a), _const(math.inf, a)
    inside = ew.bitwise_and(ew.gt(x, _const(0, x)), ew.lt(x, infinite))
    large = ew.bitwise_and(inside, ew.ge(a, least))
    few, small = ew.where(large, one, a), ew.where(large, one, x)
    # At infinity the exponential is 0, and infinity less infinity would be none.
    logarithm, end = _logarithm_and_end(ew.where(ew.eq(small, infinite), one, small), ew.sub(few, one))
    direct = ew.mul(end, ew.exp(ew.sub(ew.sub(logarithm, small), ew.lgamma(few))))
    many, near = ew.where(large, a, least), ew.where(large, x, least)
    excess = _log_excess(ew.div(ew.sub(near, many), many), ew.div(near, many))
    exponent = ew.add(ew.mul(many, excess), _stirling_series(many))
    scale = ew.sqrt(ew.mul(many, _const(0.5 / math.pi, a)))
    return ew.where(large, ew.div(ew.mul(scale, ew.exp(ew.neg(exponent))), near), direct)


define_jvp(
    ew.igamma_p,
    lambda t, ans, a, x: ew.mul(t, ew.igamma_grad_a(a, x)),
    lambda t, ans, a, x: ew.mul(t, _gamma_density(a, x)),
)
define_jvp(
    ew.igammac_p,
    lambda t, ans, a, x: ew.neg(ew.mul(t, ew.igamma_grad_a(a, x))),
    lambda t, ans, a, x: ew.neg(ew.mul(t, _gamma_density(a, x))),
)


def log_beta_density(a: Value, b: Value, x: Value) -> tuple[Value, Value]:
    """log(x^(a-1) (1-x)^(b-1) / B(a, b)) for large a + b, and where it is: 0 < x < 1 besides. Elsewhere the value means nothing.

    By what x differs from the mean, as powers and B are large or small then, their product is not (C. Loader, Fast and Accurate
    Computation of Binomial Probabilities, 2000).
    """
    one, half = _const(1, x), _const(0.5, x)
    inside = ew.bitwise_and(ew.gt(x, _const(0, x)), ew.lt(x, one))
    large = ew.bitwise_and(inside, ew.ge(ew.add(a, b), _const(_STIRLING_LEAST, a)))
    p, q, y = ew.where(large, a, one), ew.where(large, b, one), ew.where(large, x, half)
    n, rest = ew.add(p, q), ew.sub(one, y)
    off = ew.sub(ew.mul(y, n), p)
    by_p = ew.mul(p, _log_excess(ew.div(off, p), ew.div(ew.mul(y, n), p)))
    by_q = ew.mul(q, _log_excess(ew.neg(ew.div(off, q)), ew.div(ew.mul(rest, n), q)))
    series = ew.sub(ew.sub(_stirling_rest(n), _stirling_rest(p)), _stirling_rest(q))
    scale = ew.mul(half, ew.log(ew.mul(ew.mul(ew.div(p, n), q), _const(0.5 / math.pi, x))))
    return ew.sub(ew.sub(ew.add(scale, series), ew.add(by_p, by_q)), ew.log(ew.mul(y, rest))), large


def _beta_density(t: Value, ans: Value, a: Value, b: Value, x: Value) -> Value:
    """x^(a-1) (1-x)^(b-1) / B(a, b): the derivative of the incomplete beta function by x."""
    zero, one = _const(0, x), _const(1, x)
    far, large = log_beta_density(a, b, x)
    p, q, y = ew.where(large, one, a), ew.where(large, one, b), ew.where(large, _const(0.5, x), x)
    log_beta = ew.sub(ew.add(ew.lgamma(p), ew.lgamma(q)), ew.lgamma(ew.add(p, q)))
    left, left_end = _logarithm_and_end(y, ew.sub(p, one))
    # log(1 - y) is more accurate by y than by 1 - y.
    right = ew.mul(ew.sub(q, one), ew.log1p(ew.neg(ew.where(ew.eq(y, one), _const(0, y), y))))
    right_end = _logarithm_and_end(ew.sub(one, y), ew.sub(q, one))[1]
    end, exponent = ew.mul(left_end, right_end), ew.sub(ew.add(left, right), log_beta)
    # Where the density is 0, without its end's factor it, or what its derivatives multiply it by, may be too large for a number.
    most = _const(0.6 * math.log(float(np.finfo(_dtype(x)).max)), x)
    exponent = ew.where(ew.bitwise_and(ew.eq(end, zero), ew.gt(exponent, most)), most, exponent)
    direct = ew.mul(end, ew.exp(exponent))
    return ew.mul(t, ew.where(large, ew.exp(ew.where(large, far, zero)), direct))


def _no_derivative(what: str) -> Any:
    def partial(t: Value, *rest: Value) -> Value:
        raise NotImplementedError(f"{what} has no derivative rule")

    return partial


define_jvp(
    ew.regularized_incomplete_beta_p,
    _no_derivative("regularized_incomplete_beta by its parameter a"),
    _no_derivative("regularized_incomplete_beta by its parameter b"),
    _beta_density,
)
jvp.absent("second derivatives by the shape parameter are not available", ew.igamma_grad_a_p, ew.random_gamma_grad_p)


# -- complex and sign ---------------------------------------------------------------------------------------------------------------


def _abs_partial(t: Value, ans: Value, x: Value) -> Value:
    if not dtypes.is_complex(_dtype(x)):
        return ew.where(ew.ge(x, _const(0, x)), t, ew.neg(t))  # 1 at 0, as in JAX
    # Re(conj(x) t) / |x|, and 0 at 0.
    safe = ew.where(ew.eq(ans, _const(0, ans)), _const(1, ans), ans)
    inner = ew.add(ew.mul(ew.real(x), ew.real(t)), ew.mul(ew.imag(x), ew.imag(t)))
    return ew.div(inner, safe)


define_jvp(ew.abs_p, _abs_partial)


def _sign_jvp(primals: Sequence[Value], tangents: Sequence[Any]) -> tuple[Value, Any]:
    (x,), (t,) = primals, tangents
    ans = ew.sign(x)
    if not dtypes.is_complex(_dtype(x)):
        return ans, Zero(aval_of(ans).tangent())
    # x / |x|: (t - s Re(conj(s) t)) / |x| with s = sign(x); 0 at 0.
    size = ew.abs(x)
    safe = ew.where(ew.eq(size, _const(0, size)), _const(1, size), size)
    along = ew.real(ew.mul(ew.conj(ans), t))
    zero = zeros(aval_of(along))
    out = ew.div(ew.sub(t, ew.mul(ans, ew.complex(along, zero))), ew.complex(safe, zero))
    return ans, out


jvp.add(ew.sign_p, _sign_jvp)

# -- remainder, and what has derivative zero ----------------------------------------------------------------------------------------

define_jvp(
    ew.rem_p,
    lambda t, ans, x, y: _spread(t, ans),
    lambda t, ans, x, y: ew.mul(ew.neg(t), _truncate(ew.div(x, y))),
)


def _truncate(x: Value) -> Value:
    return ew.mul(ew.sign(x), ew.floor(ew.abs(x)))


define_zero_jvp(
    ew.floor_p, ew.ceil_p, ew.round_p, ew.nextafter_p, ew.eq_p, ew.ne_p, ew.lt_p, ew.le_p, ew.gt_p, ew.ge_p,
    ew.is_finite_p, ew.not_p, ew.and_p, ew.or_p, ew.xor_p, ew.shift_left_p, ew.shift_right_logical_p,
    ew.shift_right_arithmetic_p, ew.population_count_p, ew.clz_p, ew.mulhi_p, ew.bitcast_convert_type_p,
    ew.stop_gradient_p,
)  # fmt: skip

_LINEAR = {
    ew.neg_p, ew.real_p, ew.imag_p, ew.conj_p, ew.copy_p, ew.add_p, ew.sub_p, ew.mul_p, ew.div_p, ew.complex_p,
    ew.convert_element_type_p, ew.reduce_precision_p, ew.select_n_p,
}  # fmt: skip


def _declare_not_linear() -> None:
    from quire.ir.primitive import PRIMITIVES

    for p in PRIMITIVES.values():
        if p.family == "elementwise" and p not in _LINEAR:
            transpose.absent("not linear in its operands", p)


_declare_not_linear()
