"""Initial value problems: `odeint`, an adaptive Runge-Kutta solver whose gradient is a solve of the adjoint equation.

The method is Dormand and Prince's of order 5 with its embedded one of order 4; between steps the solution is Shampine's
polynomial of degree 4. Steps are chosen as in Hairer, Norsett and Wanner, Solving Ordinary Differential Equations I,
sections II.4 and II.6.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of

from .. import lax, tree_util
from .. import numpy as qnp
from ..compiling.api import compile as compile_function
from ..flatten_util import ravel_pytree
from ..transforms.custom_derivatives import closure_convert, custom_vjp
from ..transforms.differentiation import vjp

Value = Any

# The tableau: stages at these times, of these combinations of earlier slopes; the last row is also the solution.
_TIMES = np.array([1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0])
_STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_SOLUTION = np.array([*_STAGES[-1], 0.0])
_FOURTH_ORDER = np.array(
    [1951 / 21600, 0.0, 22642 / 50085, 451 / 720, -12231 / 42400, 649 / 6300, 1 / 60]
)  # fmt: skip
_ERROR = _SOLUTION - _FOURTH_ORDER
_MIDDLE = (
    np.array(
        [
            6025192743 / 30085553152, 0.0, 51252292925 / 65400821598, -2691868925 / 45128329728,
            187940372067 / 1594534317056, -1776094331 / 19743644256, 11237099 / 235043384,
        ]
    )
    / 2
)  # fmt: skip


def odeint(
    func: Callable[..., Any], y0: Any, t: Any, *args: Any, rtol: float = 1.4e-8, atol: float = 1.4e-8,
    mxstep: Any = np.inf, hmax: Any = np.inf,
) -> Any:  # fmt: skip
    """The solution of ``dy/dt = func(y, t, *args)`` from y0 at the first of the times, at each of them.

    Args:
        func: the derivative, of the structure of y0. It may close over traced arrays, which get gradients too.
        y0: an array or pytree of arrays of floats.
        t: a vector of times, which increase.
        args: further arguments of func: pytrees of arrays.
        rtol, atol: a step's error is to be below ``atol + rtol * abs(y)``.
        mxstep: how many steps are taken at most between two times.
        hmax: the longest step.

    Returns:
        y0's structure; each array has a new first dimension, that of the times.

    Raises:
        TypeError: an argument is no array of numbers.
        ValueError: t is no vector.

    It has gradients by y0, t and args (by solving the adjoint equation backward) and no forward derivative. Follows
    `jax.experimental.ode.odeint`.

    >>> from quire.experimental.ode import odeint
    >>> odeint(lambda y, t: -y, 1.0, quire.numpy.array([0.0, 1.0]), rtol=1e-6, atol=1e-6).round(3)
    Array([1.   , 0.368], dtype=float32)
    """
    for leaf in tree_util.tree_leaves((y0, t, args)):
        try:
            aval_of(leaf)
        except TypeError as error:
            raise TypeError(
                f"quire.experimental.ode.odeint: the arguments must be arrays of numbers: {error}"
            ) from None
    times = qnp.asarray(t)
    if times.ndim != 1:
        raise ValueError(f"quire.experimental.ode.odeint: t must be a vector of times, got {times.aval.short()}")
    start, unravel = ravel_pytree(y0)
    if not dtypes.is_inexact(start.aval.dtype):
        raise TypeError(f"quire.experimental.ode.odeint: y0 must be of floats, got {start.aval.short()}")
    times = times.astype(dtypes.real_dtype(start.aval.dtype))
    leaves, tree = tree_util.tree_flatten(args)
    moving = [i for i, x in enumerate(leaves) if dtypes.is_inexact(aval_of(x).dtype)]
    fixed = {i: x for i, x in enumerate(leaves) if i not in moving}

    def slope(y: Value, t: Value, *values: Value) -> Value:
        full = [fixed[i] if i in fixed else values[moving.index(i)] for i in range(len(leaves))]
        out = ravel_pytree(func(unravel(y), t, *tree_util.tree_unflatten(tree, full)))[0]
        return out.astype(start.aval.dtype)

    values = [qnp.asarray(leaves[i]) for i in moving]
    converted, captured = closure_convert(slope, start, times[0], *values)
    ys = _solve(converted, rtol, atol, mxstep, hmax, start, times, *values, *captured)
    return tree_util.tree_map(lambda *rows: qnp.stack(rows), *map(unravel, ys)) if len(times) else _none(y0)


def _none(y0: Any) -> Any:
    return tree_util.tree_map(lambda x: qnp.zeros((0, *np.shape(x)), qnp.asarray(x).dtype), y0)


@functools.partial(custom_vjp, nondiff_argnums=(0, 1, 2, 3, 4))
def _solve(
    f: Callable[..., Any], rtol: float, atol: float, mxstep: Any, hmax: Any, y0: Value, ts: Value, *args: Value
) -> Value:  # fmt: skip
    return _integrated(f, rtol, atol, mxstep, hmax, y0, ts, args)


def _forward(
    f: Callable[..., Any], rtol: float, atol: float, mxstep: Any, hmax: Any, y0: Value, ts: Value, *args: Value
) -> Any:  # fmt: skip
    ys = _solve(f, rtol, atol, mxstep, hmax, y0, ts, *args)
    return ys, (ys, ts, args)


def _backward(
    f: Callable[..., Any], rtol: float, atol: float, mxstep: Any, hmax: Any, residuals: Any, g: Value
) -> Any:  # fmt: skip
    """Between two times the state, its cotangent and the arguments' cotangents are solved backward together."""
    ys, ts, args = residuals

    def dynamics(augmented: Any, t: Value, *args: Value) -> Any:
        y, y_bar, _, _ = augmented
        dy, pull = vjp(f, y, -t, *args)
        back, t_back, *args_back = pull(y_bar)
        return -dy, back, t_back, args_back

    def interval(carry: Any, i: Value) -> tuple[Any, Value]:
        y_bar, t0_bar, args_bar = carry
        t_bar = qnp.sum(f(ys[i], ts[i], *args) * g[i]).real.astype(ts.dtype)
        _, y_bar, t0_bar, args_bar = odeint(
            dynamics, (ys[i], y_bar, t0_bar - t_bar, args_bar), qnp.stack([-ts[i], -ts[i - 1]]), *args,
            rtol=rtol, atol=atol, mxstep=mxstep, hmax=hmax,
        )  # fmt: skip
        y_bar, t0_bar, args_bar = tree_util.tree_map(operator.itemgetter(1), (y_bar, t0_bar, args_bar))
        return (y_bar + g[i - 1], t0_bar, args_bar), t_bar

    zeros = [qnp.zeros_like(a) for a in args]
    start = (g[-1], qnp.zeros((), ts.dtype), zeros)
    (y_bar, t0_bar, args_bar), t_bars = lax.scan(interval, start, qnp.arange(ts.shape[0] - 1, 0, -1))
    return (y_bar, qnp.concatenate([t0_bar[None], t_bars[::-1]]), *args_bar)


_solve.defvjp(_forward, _backward)


@functools.partial(compile_function, static_argnums=(0, 1, 2, 3, 4))
def _integrated(
    f: Callable[..., Any], rtol: float, atol: float, mxstep: Any, hmax: Any, y0: Value, ts: Value, args: Sequence[Value]
) -> Value:
    """y at each of the times, (times, size of y)."""
    most = np.int32(min(mxstep, np.iinfo(np.int32).max))

    def slope(y: Value, t: Value) -> Value:
        return f(y, t, *args)

    def until(carry: Any, target: Value) -> tuple[Any, Value]:
        def unfinished(state: Any) -> Value:
            i, _, _, t, dt, _, _ = state
            return (t < target) & (i < most) & (dt > 0)

        def step(state: Any) -> Any:
            i, y, dy, t, dt, last, polynomial = state
            y1, dy1, error, middle = _step(slope, y, dy, t, dt)
            ratio = _norm(error / (atol + rtol * qnp.maximum(abs(y), abs(y1))))
            accepted = ratio <= 1
            fresh = _polynomial(y, y1, middle, dy, dy1, dt)
            following = qnp.minimum(_following(dt, ratio), hmax)
            new = (i + 1, y1, dy1, t + dt, following, t, fresh)
            kept = (i + 1, y, dy, t, following, last, polynomial)
            return tree_util.tree_map(lambda a, b: qnp.where(accepted, a, b), new, kept)

        _, *state = lax.while_loop(unfinished, step, (qnp.zeros((), np.int32), *carry))
        _, _, t, _, last, polynomial = state
        where = ((target - last) / (t - last)).astype(y0.dtype)
        return tuple(state), qnp.polyval(polynomial, where)

    slope0 = slope(y0, ts[0])
    dt = qnp.minimum(_first_step(slope, y0, slope0, ts[0], rtol, atol), hmax).astype(ts.dtype)
    constant = qnp.zeros((5, y0.size), y0.dtype).at[-1].set(y0)
    start = (y0, slope0, ts[0], dt, ts[0], constant)
    _, ys = lax.scan(until, start, ts[1:])
    return qnp.concatenate([y0[None], ys])


def _norm(x: Value) -> Value:
    return qnp.sqrt(qnp.mean(abs(x) ** 2))


def _combined(weights: Any, slopes: Sequence[Value]) -> Value:
    """A combination of slopes, without those of weight 0."""
    return functools.reduce(operator.add, [k * float(w) for w, k in zip(weights, slopes) if w])


def _step(f: Callable[..., Any], y: Value, dy: Value, t: Value, dt: Value) -> tuple[Value, Value, Value, Value]:
    """The solution after a step, its slope there, an estimate of its error, and the solution in the step's middle."""
    h, slopes = dt.astype(y.dtype), [dy]
    for time, weights in zip(_TIMES, _STAGES):
        slopes.append(f(y + h * _combined(weights, slopes), t + dt * float(time)))
    y1 = y + h * _combined(_SOLUTION, slopes)
    return y1, slopes[-1], h * _combined(_ERROR, slopes), y + h * _combined(_MIDDLE, slopes)


def _polynomial(y0: Value, y1: Value, middle: Value, dy0: Value, dy1: Value, dt: Value) -> Value:
    """The coefficients, highest first, of degree 4 over a step: its values at 0, 1/2 and 1, its slopes at 0 and 1."""
    d0, d1 = dt.astype(y0.dtype) * dy0, dt.astype(y0.dtype) * dy1
    return qnp.stack(
        [
            2 * (d1 - d0) - 8 * (y0 + y1) + 16 * middle,
            5 * d0 - 3 * d1 + 18 * y0 + 14 * y1 - 32 * middle,
            d1 - 4 * d0 - 11 * y0 - 5 * y1 + 16 * middle,
            d0,
            y0,
        ]
    )


def _following(dt: Value, ratio: Value) -> Value:
    """The next step's length: at most ten times as long, a fifth at least, and not shorter after one that was good."""
    shortest = qnp.where(ratio < 1, 1.0, 0.2)
    factor = qnp.clip(0.9 * qnp.where(ratio == 0, 1.0, ratio) ** -0.2, shortest, 10.0)
    return dt * qnp.where(ratio == 0, 10.0, factor).astype(dt.dtype)


def _first_step(f: Callable[..., Any], y0: Value, dy0: Value, t0: Value, rtol: float, atol: float) -> Value:
    """A length for the first step, from the sizes of y, its slope and an estimate of its second derivative."""
    scale = atol + abs(y0) * rtol
    d0, d1 = _norm(y0 / scale), _norm(dy0 / scale)
    small = (d0 < 1e-5) | (d1 < 1e-5)
    h0 = qnp.where(small, 1e-6, 0.01 * d0 / qnp.where(small, 1.0, d1))
    d2 = _norm((f(y0 + h0.astype(y0.dtype) * dy0, t0 + h0) - dy0) / scale) / h0
    flat = (d1 <= 1e-15) & (d2 <= 1e-15)
    largest = qnp.where(flat, 1.0, qnp.maximum(d1, d2))
    h1 = qnp.where(flat, qnp.maximum(1e-6, h0 * 1e-3), (0.01 / largest) ** 0.2)
    return qnp.minimum(100 * h0, h1)


__all__ = ["odeint"]
