"""quire.scipy.optimize: minimisation of smooth functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from quire.ir.avals import aval_of

from .. import lax
from .. import numpy as qnp
from ..absent_names import module_getattr
from ..arrays.operands import INEXACT, Value, array, cast, epsilon
from ..transforms.differentiation import value_and_grad

_C1, _C2 = 1e-4, 0.9  # of the Wolfe conditions: sufficient decrease and curvature


class OptimizeResults(NamedTuple):
    """What `minimize` returns.

    Attributes:
        x: the point found. fun, jac: the function's value and gradient there.
        success: whether the gradient fell below the tolerance, or the function ceased to fall (status 0 or 4).
        status: 0 for success, 1 after the most iterations, 2 and 3 after the most evaluations of the function and of
            the gradient, 4 where the function ceased to fall, 5 where the line search found no better point.
        hess_inv: the approximate inverse of the Hessian matrix, or None.
        nfev, njev, nit: the numbers of evaluations of the function and of the gradient, and of iterations.
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


# -- line search ------------------------------------------------------------------------------------------------------


class _Point(NamedTuple):
    """A step length, and the function's value and slope there."""

    step: Any
    value: Any
    slope: Any


class _Search(NamedTuple):
    """The state of a line search; a point `low` and a bound `high` enclose good steps once `zooming`."""

    count: Any
    turn: Any  # of bracketing, then of zooming
    zooming: Any
    done: Any
    step: Any  # to be tried next
    low: _Point
    high: _Point
    recent: _Point  # the end of the interval before, which a cubic goes through, too
    best: _Point
    gradient: Any  # of the best point


def _pick(condition: Value, a: Any, b: Any) -> Any:
    return type(a)(*(qnp.where(condition, x, y) for x, y in zip(a, b)))


def _parabola(low: _Point, high: _Point) -> Value:
    """Where the parabola through both with the first's slope has its minimum; not finite where it has none."""
    width = high.step - low.step
    curvature = (high.value - low.value - low.slope * width) / (width * width)
    return low.step - low.slope / (2.0 * curvature)


def _cubic(low: _Point, high: _Point, other: _Point) -> Value:
    """Where the cubic through three points with the first's slope has its minimum; not finite where it has none."""
    wide, wider = high.step - low.step, other.step - low.step
    rise = high.value - low.value - low.slope * wide
    rise_other = other.value - low.value - low.slope * wider
    scale = (wide * wider) ** 2 * (wide - wider)
    third = (wider**2 * rise - wide**2 * rise_other) / scale
    second = (wide**3 * rise_other - wider**3 * rise) / scale
    return low.step + (qnp.sqrt(second * second - 3.0 * third * low.slope) - second) / (3.0 * third)


#: How far from the interval's ends a cubic's and a parabola's minimum must be, in lengths of the interval.
_CUBIC_MARGIN, _PARABOLA_MARGIN = 0.2, 0.1


def _trial(low: _Point, high: _Point, recent: _Point, first: Value) -> Value:
    """The next step of a zoom: a cubic's minimum, else a parabola's, else the middle."""
    left, right = qnp.minimum(low.step, high.step), qnp.maximum(low.step, high.step)

    def inside(step: Value, margin: float) -> Value:
        away = margin * (right - left)
        return qnp.isfinite(step) & (step <= right - away) & (step >= left + away)

    cubic, parabola = _cubic(low, high, recent), _parabola(low, high)
    otherwise = qnp.where(inside(parabola, _PARABOLA_MARGIN), parabola, low.step + 0.5 * (high.step - low.step))
    return qnp.where(~first & inside(cubic, _CUBIC_MARGIN), cubic, otherwise)


def _line_search(
    fun: Callable[[Value], tuple[Value, Value]], x: Value, direction: Value, start: _Point, gradient: Value, first: Value,
    most: int,
) -> _Search:  # fmt: skip
    """A step that satisfies the strong Wolfe conditions (Nocedal and Wright, algorithms 3.5 and 3.6).

    One evaluation an iteration, at most `most` to enclose good steps and `most` within. Steps within are interpolated as
    SciPy's line search does. Near the minimum, where differences of values are rounding errors, Hager and Zhang's
    approximate condition (SIAM J. Optim. 16, 2005) accepts a step by its slope.
    """
    slack = epsilon(x) * qnp.abs(start.value)
    zero = qnp.zeros_like(start.value)
    begin = _Point(zero, start.value, start.slope)
    none, no = qnp.asarray(0), qnp.asarray(False)
    state = _Search(none, none, no, no, first, begin, begin, begin, begin, gradient)

    def running(s: _Search) -> Value:
        return (s.turn < most) & ~s.done

    def advance(s: _Search) -> _Search:
        value, g = fun(x + s.step * direction)
        here = _Point(s.step, value, qnp.dot(g, direction))
        ok = qnp.isfinite(value)
        high = ~ok | (value > start.value + _C1 * s.step * start.slope)
        high = high | ((value >= s.low.value) & (s.zooming | (s.turn > 0)))
        flat = qnp.abs(here.slope) <= -_C2 * start.slope
        near = (value <= start.value + slack) & ((2 * _C1 - 1) * start.slope >= here.slope)
        done = (~high & flat) | (ok & near & flat)
        rises = here.slope * qnp.where(s.zooming, s.high.step - s.low.step, 1.0) >= 0
        # Bracketing: (low, high) is (previous, here) past the minimum, (here, previous) where the slope has turned.
        # Zooming: `here` replaces high, or low; in that case low replaces high where the slope points away from it.
        new_low = _pick(high, s.low, here)
        new_high = _pick(high, here, _pick(rises, s.low, s.high))
        recent = _pick(high | rises, s.high, s.low)
        zooming = s.zooming | high | rises
        begins = zooming & ~s.zooming
        step = qnp.where(zooming, _trial(new_low, new_high, recent, begins), 2.0 * s.step)
        better = done | (ok & (value < s.best.value))
        best = _pick(better, here, s.best)
        turn = qnp.where(begins, 0, s.turn + 1)
        return _Search(
            s.count + 1, turn, zooming, done, step, new_low, new_high, recent, best, qnp.where(better, g, s.gradient)
        )

    return lax.while_loop(running, advance, state)


# -- BFGS -------------------------------------------------------------------------------------------------------------


class _State(NamedTuple):
    """What both methods carry from iteration to iteration."""

    x: Any
    value: Any
    gradient: Any
    before: Any  # the value of the iteration before
    status: Any  # -1 while running
    evaluations: Any
    iterations: Any
    memory: Any  # the inverse Hessian, or the last steps and differences of gradients


def _norm(x: Value, order: Any) -> Value:
    size = qnp.abs(x)
    if order == np.inf:
        return qnp.max(size)
    if order == 1:
        return qnp.sum(size)
    if order == 2:
        return qnp.sqrt(qnp.sum(size * size))
    return qnp.sum(size**order) ** (1.0 / order)


def _start(fun: Callable[[Value], tuple[Value, Value]], x0: Value, memory: Any, gtol: float, order: Any) -> _State:
    value, gradient = fun(x0)
    before = value + 0.5 * qnp.sqrt(qnp.dot(gradient, gradient))
    status = qnp.where(_norm(gradient, order) < gtol, 0, -1)
    one, none = qnp.asarray(1), qnp.asarray(0)
    return _State(x0, value, gradient, before, status, one, none, memory)


def _step(fun: Callable[[Value], tuple[Value, Value]], s: _State, direction: Value, most: int) -> tuple[_Search, Value]:
    """The line search along a direction; along the steepest descent where that does not descend."""
    slope = qnp.dot(s.gradient, direction)
    down = slope < 0
    direction = qnp.where(down, direction, -s.gradient)
    slope = qnp.where(down, slope, -qnp.dot(s.gradient, s.gradient))
    guess = 2.02 * (s.value - s.before) / qnp.where(slope < 0, slope, -1.0)
    first = qnp.where((guess > 0) & (guess < 1.0), guess, 1.0)
    found = _line_search(fun, s.x, direction, _Point(0.0, s.value, slope), s.gradient, first, most)
    return found, found.best.step * direction


def _minimize_bfgs(
    fun: Callable[[Value], tuple[Value, Value]], x0: Value, maxiter: int | None = None, norm: Any = np.inf,
    gtol: float = 1e-5, line_search_maxiter: int = 10,
) -> OptimizeResults:  # fmt: skip
    """Broyden, Fletcher, Goldfarb and Shanno's method (Nocedal and Wright, algorithm 6.1)."""
    n = aval_of(x0).shape[0]
    most = 200 * n if maxiter is None else maxiter
    identity = qnp.eye(n, dtype=aval_of(x0).dtype)

    def running(s: _State) -> Value:
        return (s.status < 0) & (s.iterations < most)

    def advance(s: _State) -> _State:
        found, step = _step(fun, s, -qnp.matmul(s.memory, s.gradient), line_search_maxiter)
        change = found.gradient - s.gradient
        curvature = qnp.dot(change, step)
        good = curvature > 0
        rho = qnp.where(good, 1.0 / qnp.where(good, curvature, 1.0), 0.0)
        left = identity - rho * step[:, None] * change[None, :]
        memory = qnp.matmul(qnp.matmul(left, s.memory), left.T) + rho * step[:, None] * step[None, :]
        status = qnp.where(_norm(found.gradient, norm) < gtol, 0, qnp.where(found.done, -1, 5))
        return _State(
            s.x + step, found.best.value, found.gradient, s.value, status, s.evaluations + found.count,
            s.iterations + 1, memory,
        )  # fmt: skip

    s = lax.while_loop(running, advance, _start(fun, x0, identity, gtol, norm))
    status = qnp.where(s.status < 0, 1, s.status)
    return OptimizeResults(
        s.x, status == 0, status, s.value, s.gradient, s.memory, s.evaluations, s.evaluations, s.iterations
    )


def _two_loops(s: Value, y: Value, gradient: Value) -> Value:
    """The inverse Hessian of the last steps s and differences y, newest last, times a gradient (algorithm 7.4)."""
    m = aval_of(s).shape[0]
    rho: list[Value] = []
    for i in range(m):
        product = qnp.dot(s[i], y[i])
        rho.append(qnp.where(product > 0, 1.0 / qnp.where(product > 0, product, 1.0), 0.0))
    q, factors = gradient, []
    for i in range(m - 1, -1, -1):
        factor = rho[i] * qnp.dot(s[i], q)
        factors.append(factor)
        q = q - factor * y[i]
    size = qnp.dot(y[-1], y[-1])
    q = q * qnp.where(size > 0, qnp.dot(s[-1], y[-1]) / qnp.where(size > 0, size, 1.0), 1.0)
    for i, factor in enumerate(reversed(factors)):
        q = q + s[i] * (factor - rho[i] * qnp.dot(y[i], q))
    return q


def _minimize_lbfgs(
    fun: Callable[[Value], tuple[Value, Value]], x0: Value, maxiter: int | None = None, norm: Any = np.inf,
    maxcor: int = 10, ftol: float = 2.220446049250313e-09, gtol: float = 1e-05, maxfun: int | None = None,
    maxgrad: int | None = None, maxls: int = 20,
) -> OptimizeResults:  # fmt: skip
    """The limited-memory form of the method (Nocedal and Wright, algorithm 7.5)."""
    n, dtype = aval_of(x0).shape[0], aval_of(x0).dtype
    unlimited = np.iinfo(np.int32).max
    most = 200 * n if maxiter is None else maxiter
    calls, gradients = (unlimited if m is None else m for m in (maxfun, maxgrad))
    empty = qnp.zeros((maxcor, n), dtype=dtype)

    def running(s: _State) -> Value:
        return (s.status < 0) & (s.iterations < most)

    def advance(s: _State) -> _State:
        steps, changes = s.memory
        found, step = _step(fun, s, -_two_loops(steps, changes, s.gradient), maxls)
        change = found.gradient - s.gradient
        keep = qnp.dot(change, step) > 0
        steps = qnp.where(keep, qnp.concatenate([steps[1:], step[None]]), steps)
        changes = qnp.where(keep, qnp.concatenate([changes[1:], change[None]]), changes)
        count = s.evaluations + found.count
        scale = qnp.maximum(qnp.maximum(qnp.abs(s.value), qnp.abs(found.best.value)), 1.0)
        status = qnp.where(found.done, -1, 5)
        status = qnp.where((s.value - found.best.value) / scale < ftol, 4, status)
        status = qnp.where(count >= gradients, 3, qnp.where(count >= calls, 2, status))
        status = qnp.where(_norm(found.gradient, norm) < gtol, 0, status)
        return _State(
            s.x + step, found.best.value, found.gradient, s.value, status, count, s.iterations + 1, (steps, changes)
        )

    s = lax.while_loop(running, advance, _start(fun, x0, (empty, empty), gtol, norm))
    status = qnp.where(s.status < 0, 1, s.status)
    return OptimizeResults(
        s.x,
        (status == 0) | (status == 4),
        status,
        s.value,
        s.gradient,
        None,
        s.evaluations,
        s.evaluations,
        s.iterations,
    )


_METHODS: dict[str, tuple[Callable[..., OptimizeResults], tuple[str, ...]]] = {
    "bfgs": (_minimize_bfgs, ("maxiter", "norm", "gtol", "line_search_maxiter")),
    "l-bfgs-experimental-do-not-rely-on-this": (
        _minimize_lbfgs, ("maxiter", "norm", "maxcor", "ftol", "gtol", "maxfun", "maxgrad", "maxls")
    ),
}  # fmt: skip


def minimize(
    fun: Callable[..., Any], x0: Any, args: tuple[Any, ...] = (), *, method: str, tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:  # fmt: skip
    """A minimum of a smooth function of several variables.

    Args:
        fun: ``fun(x, *args)``, a scalar, made of traced operations: its gradient is taken.
        x0: the first guess, a vector of floats, with limited memory also of complex numbers. args: further arguments, a tuple.
        method: "BFGS", or "l-bfgs-experimental-do-not-rely-on-this" with limited memory.
        tol: the tolerance of the gradient, option `gtol`.
        options: maxiter, norm (of the gradient: a number, or inf) and gtol; line_search_maxiter for BFGS; maxcor, ftol,
            maxfun, maxgrad and maxls for L-BFGS.

    Returns:
        An `OptimizeResults`.

    Raises:
        ValueError: the method is unknown, or x0 is no vector. TypeError: args is no tuple, x0 has no floats, or an
            option is unknown.

    Follows `jax.scipy.optimize.minimize`. The line search is Nocedal and Wright's, with SciPy's interpolation and Hager and
    Zhang's approximate Wolfe condition; the whole runs within one compiled loop.

    >>> def fun(x):
    ...     return ((x - quire.numpy.array([1., 2.])) ** 2).sum()
    >>> result = quire.scipy.optimize.minimize(fun, quire.numpy.zeros(2), method="BFGS")
    >>> [round(v, 3) for v in result.x.tolist()], bool(result.success)
    ([1.0, 2.0], True)
    """
    name = "optimize.minimize"
    if not isinstance(args, tuple):
        raise TypeError(f"quire.scipy.{name}: args must be a tuple, got {args!r}")
    known = _METHODS.get(method.lower()) if isinstance(method, str) else None
    if known is None:
        raise ValueError(f"quire.scipy.{name}: method must be one of 'BFGS', {list(_METHODS)[1]!r}, got {method!r}")
    x = array(name, x0, "x0")
    if aval_of(x).ndim != 1:
        raise ValueError(f"quire.scipy.{name}: x0 must be a vector, got {aval_of(x).short()}: use quire.numpy.ravel")
    if aval_of(x).dtype in INEXACT and aval_of(x).dtype.kind == "c" and known is not _METHODS["bfgs"]:
        return _minimize_parts(fun, x, args, method=method, tol=tol, options=options)
    if aval_of(x).dtype not in INEXACT or aval_of(x).dtype.kind == "c":
        raise TypeError(f"quire.scipy.{name}: x0 must be real floats, got {aval_of(x).short()}: convert it with astype")
    chosen = dict(options or {})
    if tol is not None:
        chosen.setdefault("gtol", tol)
    implementation, accepted = known
    unknown = [k for k in chosen if k not in accepted]
    if unknown:
        raise TypeError(
            f"quire.scipy.{name}: unknown option {unknown[0]!r} for method {method!r}: it takes {', '.join(accepted)}"
        )
    x = cast(x, aval_of(x).dtype)
    derivative = value_and_grad(lambda v: fun(v, *args))

    def evaluated(v: Value) -> tuple[Value, Value]:
        value, gradient = derivative(v)
        return cast(value, aval_of(x).dtype), gradient

    return implementation(evaluated, x, **chosen)


def _minimize_parts(fun: Callable[..., Any], x0: Value, args: tuple[Any, ...], **how: Any) -> OptimizeResults:
    """The minimum of a real function of complex numbers, sought by their real and imaginary parts.

    The gradient that is told is `grad`'s: the derivative by the real part, less i times that by the imaginary one.
    """
    n = aval_of(x0).shape[0]

    def joined(parts: Value) -> Value:
        return lax.complex(parts[:n], parts[n:])

    found = minimize(lambda parts, *rest: fun(joined(parts), *rest), qnp.concatenate([x0.real, x0.imag]), args, **how)
    return found._replace(x=joined(found.x), jac=qnp.conj(joined(found.jac)))


__all__ = ["OptimizeResults", "minimize"]
__getattr__ = module_getattr("quire.scipy.optimize", globals())
