"""Logarithms and entropies that are right at 0, and sums of exponentials."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st

from ... import numpy as qnp
from ...arrays.operands import Value, array, as_axes, cast, operands, usual_promotion, widened
from ...numpy import reductions as rd
from ...transforms.custom_derivatives import custom_jvp, define_partials


@custom_jvp
def xlogy_(x: Value, y: Value) -> Value:
    """x log(y) of arrays of one shape and inexact dtype, 0 where x is 0 and y is no NaN."""
    zero = (x == 0) & (y == y)
    return qnp.where(zero, 0.0, x * ew.log(qnp.where(zero, 1.0, y)))


define_partials(xlogy_, lambda t, value, x, y: t * ew.log(y), lambda t, value, x, y: t * (x / y))


def xlogy(x: Any, y: Any) -> Value:
    """x log(y), and 0 where x is 0.

    Args:
        x, y: arrays or numbers, of shapes that broadcast.

    Returns:
        An array of the broadcast shape; integers and bool become the default float.

    Follows `scipy.special.xlogy`.

    >>> quire.scipy.special.xlogy(0.0, 0.0).item()
    0.0
    """
    return xlogy_(*operands("special.xlogy", x, y, complex_ok=True))


@custom_jvp
def xlog1py_(x: Value, y: Value) -> Value:
    """x log(1 + y) of arrays of one shape and inexact dtype, 0 where x is 0 and y is no NaN."""
    zero = (x == 0) & (y == y)
    return qnp.where(zero, 0.0, x * ew.log1p(qnp.where(zero, 0.0, y)))


define_partials(xlog1py_, lambda t, value, x, y: t * ew.log1p(y), lambda t, value, x, y: t * (x / (1.0 + y)))


def xlog1py(x: Any, y: Any) -> Value:
    """x log1p(y), and 0 where x is 0. Follows `scipy.special.xlog1py`.

    >>> quire.scipy.special.xlog1py(0.0, -1.0).item()
    0.0
    """
    return xlog1py_(*operands("special.xlog1py", x, y, complex_ok=True))


@custom_jvp
def entr_(x: Value) -> Value:
    """-x log(x) of an array of inexact dtype, -inf for negative x."""
    return qnp.where(x < 0, -np.inf, -xlogy_(x, x))


@entr_.defjvp
def _entr_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return entr_(x), qnp.where(x < 0, 0.0, -t * (ew.log(x) + 1.0))


def entr(x: Any) -> Value:
    """-x log(x): 0 at 0 and -inf for negative x. Follows `scipy.special.entr`.

    >>> quire.scipy.special.entr(1.0).item()
    -0.0
    """
    return entr_(*operands("special.entr", x))


@custom_jvp
def _log_ratio(x: Value, y: Value) -> Value:
    """log(x / y) of positive numbers, accurate where they are nearly equal and where the ratio over- or underflows."""
    ratio = x / y
    close = (ratio > 0.5) & (ratio < 2.0)
    near = ew.log1p(qnp.where(close, (x - y) / y, 0.0))
    normal = (ratio >= float(np.finfo(aval_of(ratio).dtype).tiny)) & qnp.isfinite(ratio)
    far = qnp.where(normal, ew.log(qnp.where(normal, ratio, 1.0)), ew.log(x) - ew.log(y))
    return qnp.where(close, near, far)


define_partials(_log_ratio, lambda t, value, x, y: t / x, lambda t, value, x, y: -t / y)


def _where_positive(p: Value, q: Value) -> tuple[Value, Value, Value]:
    """Whether both numbers are positive, and the numbers, 1 where not."""
    both = (p > 0) & (q > 0)
    return both, qnp.where(both, p, 1.0), qnp.where(both, q, 1.0)


@custom_jvp
def _rel_entr(p: Value, q: Value) -> Value:
    both, x, y = _where_positive(p, q)
    zero = (p == 0) & (q >= 0)
    value = qnp.where(both, x * _log_ratio(x, y), qnp.where(zero, 0.0, np.inf))
    return qnp.where(qnp.isnan(p) | qnp.isnan(q), np.nan, value)


def _rel_entr_by_p(t: Value, value: Value, p: Value, q: Value) -> Value:
    both, x, y = _where_positive(p, q)
    return qnp.where(both, t * (_log_ratio(x, y) + 1.0), 0.0)


def _rel_entr_by_q(t: Value, value: Value, p: Value, q: Value) -> Value:
    both, x, y = _where_positive(p, q)
    return qnp.where(both, -t * (x / y), 0.0)


define_partials(_rel_entr, _rel_entr_by_p, _rel_entr_by_q)


@custom_jvp
def _kl_div(p: Value, q: Value) -> Value:
    negative = ((p < 0) | (q < 0)) & (p == p) & (q == q)
    return qnp.where(negative, np.inf, _rel_entr(p, q) - p + q)


def _kl_div_by_p(t: Value, value: Value, p: Value, q: Value) -> Value:
    both, x, y = _where_positive(p, q)
    # That of rel_entr less 1 would lose the logarithm of numbers that are nearly equal.
    return qnp.where(both, t * _log_ratio(x, y), qnp.where((p == 0) & (q >= 0), -t, 0.0))


def _kl_div_by_q(t: Value, value: Value, p: Value, q: Value) -> Value:
    both, x, y = _where_positive(p, q)
    endless = qnp.isinf(y)
    slope = qnp.where(endless, 1.0 - x / y, (y - x) / qnp.where(endless, 1.0, y))
    return qnp.where(both, t * slope, qnp.where((p == 0) & (q >= 0), t, 0.0))


define_partials(_kl_div, _kl_div_by_p, _kl_div_by_q)


def rel_entr(p: Any, q: Any) -> Value:
    """The relative entropy p log(p/q): 0 for p = 0 <= q, inf where p or q is negative.

    Args:
        p, q: real arrays or numbers, of shapes that broadcast.

    Follows `scipy.special.rel_entr`.

    >>> quire.scipy.special.rel_entr(2.0, 2.0).item()
    0.0
    """
    return widened(_rel_entr, *operands("special.rel_entr", p, q))


def kl_div(p: Any, q: Any) -> Value:
    """The Kullback-Leibler divergence p log(p/q) - p + q: q for p = 0 <= q, inf where p or q is negative.

    Args:
        p, q: real arrays or numbers, of shapes that broadcast.

    Follows `scipy.special.kl_div`.

    >>> quire.scipy.special.kl_div(0.0, 2.0).item()
    2.0
    """
    return widened(_kl_div, *operands("special.kl_div", p, q))


def expit(x: Any) -> Value:
    """The logistic function 1 / (1 + exp(-x)). Follows `scipy.special.expit`.

    >>> quire.scipy.special.expit(0.0).item()
    0.5
    """
    return ew.logistic(*operands("special.expit", x, complex_ok=True))


@custom_jvp
def logit_(x: Value) -> Value:
    """log(x / (1 - x)) of an array of inexact dtype."""
    ratio = x / (1.0 - x)
    if dtypes.is_complex(aval_of(x).dtype):
        return ew.log(ratio)
    middle = qnp.abs(x - 0.5) < 0.25
    return qnp.where(middle, ew.log1p(qnp.where(middle, (2.0 * x - 1.0) / (1.0 - x), 0.0)), ew.log(ratio))


@logit_.defjvp
def _logit_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return logit_(x), t / (x * (1.0 - x))


def logit(x: Any) -> Value:
    """log(x / (1 - x)), the inverse of `expit`. Follows `scipy.special.logit`.

    >>> quire.scipy.special.logit(0.5).item()
    0.0
    """
    return logit_(*operands("special.logit", x, complex_ok=True))


def _power_less_one(log: Value, power: Value) -> Value:
    """(exp(power log) - 1) / power, and log where the power is 0."""
    zero = power == 0
    return qnp.where(zero, log, ew.expm1(power * log) / qnp.where(zero, 1.0, power))


def _power_less_one_by_power(t: Value, value: Value, log: Value, power: Value) -> Value:
    u = qnp.where((power == 0) & qnp.isinf(log), 0.0, power * log)
    small = qnp.abs(u) < 0.1
    near, far = qnp.where(small, u, 0.0), qnp.where(small, 1.0, power)
    # (u exp(u) - expm1(u)) / u**2 = the sum of (k + 1) u**k / (k + 2)!
    series: Any = 0.0
    factor = 1.0
    factors: list[float] = []
    for k in range(9):
        factor = factor / (k + 2)
        factors.append((k + 1) * factor)
    for c in reversed(factors):
        series = series * near + c
    raised = ew.exp(u)
    return t * qnp.where(small, log * log * series, (qnp.where(raised == 0, 0.0, log) * raised - value) / far)


# Each with a derivative of its own: the logarithm's is infinite where the power's is 0.
@custom_jvp
def _boxcox(y: Value, power: Value) -> Value:
    return _power_less_one(ew.log(y), power)


define_partials(
    _boxcox,
    lambda t, value, y, power: t * ew.pow(y, power - 1.0),
    lambda t, value, y, power: _power_less_one_by_power(t, value, ew.log(y), power),
)


@custom_jvp
def _boxcox1p(y: Value, power: Value) -> Value:
    return _power_less_one(ew.log1p(y), power)


define_partials(
    _boxcox1p,
    lambda t, value, y, power: t * ew.exp(xlog1py_(power - 1.0, y)),
    lambda t, value, y, power: _power_less_one_by_power(t, value, ew.log1p(y), power),
)


def boxcox(x: Any, lmbda: Any) -> Value:
    """The Box-Cox transformation (x**lmbda - 1) / lmbda, and log(x) for lmbda = 0.

    Args:
        x, lmbda: arrays or numbers, of shapes that broadcast.

    Follows `scipy.special.boxcox`. The derivative by lmbda is right at 0 too (JAX's is 0 there).

    >>> quire.scipy.special.boxcox(3.0, 2.0).item()
    4.0
    """
    y, power = operands("special.boxcox", x, lmbda, complex_ok=True)
    return _boxcox(y, power)


def boxcox1p(x: Any, lmbda: Any) -> Value:
    """The Box-Cox transformation of 1 + x, accurate for small x. Follows `scipy.special.boxcox1p`.

    >>> quire.scipy.special.boxcox1p(2.0, 2.0).item()
    4.0
    """
    y, power = operands("special.boxcox1p", x, lmbda, complex_ok=True)
    return _boxcox1p(y, power)


# -- sums of exponentials ---------------------------------------------------------------------------------------------


def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False, where: Any = None
) -> Any:
    """log(sum(b exp(a))) over some axes, without overflow.

    Args:
        a: an array. axis: an axis, several, or None for all.
        b: factors of the exponentials, of a shape that broadcasts with a's.
        keepdims: whether the reduced dimensions stay, with size 1.
        return_sign: return (the logarithm of the sum's size, the sum's sign or phase); without it a negative sum of
            real numbers is NaN.
        where: which elements count.

    Follows `scipy.special.logsumexp`.

    >>> quire.scipy.special.logsumexp(quire.numpy.array([1000., 1000.])).item()  # doctest: +ELLIPSIS
    1000.69...
    """
    if b is None:
        (x,) = operands("special.logsumexp", a, complex_ok=True)
        factor = None
    else:
        x, factor = operands("special.logsumexp", a, b, complex_ok=True)
    return _logsumexp(x, factor, axis, keepdims, return_sign, where)


@usual_promotion
def _logsumexp(x: Value, factor: Value | None, axis: Any, keepdims: bool, return_sign: bool, where: Any) -> Any:
    axes = as_axes("quire.scipy.special.logsumexp", axis, aval_of(x).ndim)
    mask = None if where is None else qnp.broadcast_to(array("special.logsumexp", where, "where"), aval_of(x).shape)
    size = ew.real(x) if dtypes.is_complex(aval_of(x).dtype) else x
    counted = size if factor is None else qnp.where(factor == 0, -np.inf, size)
    if mask is not None:
        counted = qnp.where(mask, counted, -np.inf)
    some = mask is None and all(aval_of(x).shape[d] for d in axes)
    top = rd.max(counted, axis=axes, keepdims=True, initial=None if some else -np.inf)
    top = ew.stop_gradient(qnp.where(qnp.isfinite(top), top, 0.0))
    skipped = None
    if factor is not None:
        skipped = factor == 0
    if mask is not None:
        skipped = ~mask if skipped is None else skipped | ~mask
    shifted = x - top
    if skipped is not None:
        shifted = qnp.where(skipped, 0.0, shifted)
    powers = ew.exp(shifted)
    if factor is not None:
        powers = powers * factor
    if skipped is not None:
        powers = qnp.where(skipped, 0.0, powers)
    total = rd.sum(powers, axis=axes, keepdims=keepdims)
    shift = st.reshape(top, aval_of(total).shape)
    if return_sign:
        return ew.log(qnp.abs(total)) + shift, qnp.sign(total)
    return ew.log(total) + shift


def _softmax_operand(name: str, x: Any) -> Value:
    y = array(name, x)
    if dtypes.is_bool(aval_of(y).dtype):
        raise TypeError(f"quire.scipy.{name}: takes numbers, got {aval_of(y).short()}: convert it with astype")
    return operands(name, y, complex_ok=True)[0]


def _shifted(name: str, x: Any, axis: Any) -> tuple[Value, tuple[int, ...]]:
    y = _softmax_operand(name, x)
    axes = as_axes(f"quire.scipy.{name}", axis, aval_of(y).ndim)
    size = ew.real(y) if dtypes.is_complex(aval_of(y).dtype) else y
    top = ew.stop_gradient(rd.max(size, axis=axes, keepdims=True, initial=-np.inf))
    return y - cast(top, aval_of(y).dtype), axes


def softmax(x: Any, /, *, axis: Any = None) -> Value:
    """exp(x) divided by its sum over some axes: all for None.

    Args:
        x: an array; integers become the default float, bool is a TypeError. axis: an axis, several, or None for all.

    Follows `scipy.special.softmax`.

    >>> quire.scipy.special.softmax(quire.numpy.array([3., 3.]))
    Array([0.5, 0.5], dtype=float32)
    """
    y, axes = _shifted("special.softmax", x, axis)
    powers = ew.exp(y)
    return powers / rd.sum(powers, axis=axes, keepdims=True)


def log_softmax(x: Any, /, *, axis: Any = None) -> Value:
    """The logarithm of `softmax`, without overflow. Follows `scipy.special.log_softmax`.

    >>> quire.scipy.special.log_softmax(quire.numpy.array([0., 0.]))
    Array([-0.6931472, -0.6931472], dtype=float32)
    """
    y, axes = _shifted("special.log_softmax", x, axis)
    return y - ew.log(rd.sum(ew.exp(y), axis=axes, keepdims=True))
