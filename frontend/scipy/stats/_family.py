"""What the distributions of quire.scipy.stats share: functions made of a few formulas of the standard distribution.

A distribution gives formulas of the standard variable (location 0, scale 1) inside of its support, as functions of
arrays of one dtype and shape. `continuous` and `discrete` make the public functions of them: they check and promote the
arguments, shift and scale, give the values outside of the support, NaN for parameters that are not allowed, and derive
what the table `_DERIVED` can derive. float16 and bfloat16 are computed in float32.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quire.ir.avals import aval_of
from quire.ir.primitives import elementwise as ew

from ... import numpy as qnp
from ...arrays.operands import Value, cast, operands, widened
from ...transforms.custom_derivatives import SymbolicZero, custom_jvp
from ...transforms.differentiation import jvp

Formula = Callable[..., Value]


def log1mexp(x: Value) -> Value:
    """log(1 - exp(-x)) for x >= 0 (M. Maechler, Accurately Computing log(1 - exp(-|a|)), 2012)."""
    small = x < math.log(2.0)
    low, high = qnp.where(small, x, 1.0), qnp.where(small, 1.0, x)
    return qnp.where(small, ew.log(-ew.expm1(-low)), ew.log1p(-ew.exp(-high)))


#: How a function follows from another one where a distribution has no formula for it: (from, by).
_DERIVED: dict[str, tuple[tuple[str, Formula], ...]] = {
    "pdf": (("logpdf", ew.exp),),
    "pmf": (("logpmf", ew.exp),),
    "cdf": (("logcdf", ew.exp), ("sf", lambda v: 1.0 - v)),
    "sf": (("logsf", ew.exp), ("cdf", lambda v: 1.0 - v)),
    "logcdf": (("cdf", ew.log),),
    "logsf": (("sf", ew.log),),
}
#: The values below and above the support.
_OUTSIDE = {
    "pdf": (0.0, 0.0), "logpdf": (-np.inf, -np.inf), "pmf": (0.0, 0.0), "logpmf": (-np.inf, -np.inf),
    "cdf": (0.0, 1.0), "sf": (1.0, 0.0), "logcdf": (-np.inf, 0.0), "logsf": (0.0, -np.inf),
}  # fmt: skip
_WHAT = {
    "pdf": "The density of {what} at {point}.",
    "logpdf": "The logarithm of the density of {what} at {point}.",
    "pmf": "The chance of the value {point} under {what}.",
    "logpmf": "The logarithm of the chance of the value {point} under {what}.",
    "cdf": "The chance of a value of at most {point} under {what}.",
    "sf": "The chance of a value greater than {point} under {what}.",
    "logcdf": "The logarithm of the chance of a value of at most {point} under {what}.",
    "logsf": "The logarithm of the chance of a value greater than {point} under {what}.",
    "ppf": "The quantile of {what}: the least value whose distribution function is at least {point}.",
    "isf": "The upper quantile of {what}: the value that is exceeded with chance {point}.",
    "entropy": "The entropy of {what}, in nats.",
}
_COMMON = {"loc": "the shift of the distribution.", "scale": "the width of the distribution, greater than 0."}
_POINT = {
    "k": "an integer array or number; other values have chance 0.", "x": "a real array or number.",
    "q": "a chance in [0, 1]; NaN for others.", "p": "a chance in [0, 1]; NaN for others.",
}  # fmt: skip


@dataclass(frozen=True)
class Family:
    """A distribution: its names, parameters and formulas.

    Attributes:
        what: how sentences call it.
        shapes: the shape parameters and what they are.
        formulas: from names of functions to formulas of the standard variable and the shape parameters.
        valid: whether shape parameters are allowed.
        low, high: the ends of the support: numbers, or functions of the shape parameters.
        inside: a point within the support, put in place of points outside before a formula is evaluated.
        infinite: from names of functions to the infinite points at which their formulas hold as well, with their derivatives.
        located: which of "loc" and "scale" the functions take.
        example: the arguments of the examples, by the point's name.
        points: the names of the first parameters that are not x (k for discrete ones).
    """

    name: str
    what: str
    formulas: Mapping[str, Formula]
    results: Mapping[str, str]
    example: str
    shapes: Mapping[str, str] = field(default_factory=dict)
    valid: Formula | None = None
    low: float | Formula = -np.inf
    high: float | Formula = np.inf
    inside: float | Formula = 0.5
    infinite: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    located: tuple[str, ...] = ("loc", "scale")
    unlocated: tuple[str, ...] = ()
    points: Mapping[str, str] = field(default_factory=dict)
    discrete: bool = False

    def formula(self, name: str) -> Formula:
        """The formula of a function, given or derived."""
        if name in self.formulas:
            return self.formulas[name]
        other = {"logcdf": ("cdf", "sf"), "logsf": ("sf", "cdf")}.get(name, ())
        if other and all(f in self.formulas for f in other):
            chance, rest = (self.formulas[f] for f in other)
            return _nearer(chance, rest, self.formula("logpdf"), 1.0 if name == "logcdf" else -1.0)
        for source, by in _DERIVED[name]:
            if source in self.formulas:
                return _composed(by, self.formulas[source])
        return _composed(_DERIVED[name][0][1], self.formula(_DERIVED[name][0][0]))

    def end(self, which: float | Formula, shapes: Sequence[Value]) -> Any:
        """An end of the support: a number, or the value of its formula for these shape parameters."""
        return which(*shapes) if callable(which) else which


def _composed(outer: Formula, inner: Formula) -> Formula:
    def composed(*args: Value) -> Value:
        return outer(inner(*args))

    return composed


def _nearer(chance: Formula, rest: Formula, logpdf: Formula, sign: float) -> Formula:
    """The logarithm of a chance: where it is large, from the rest to 1.

    The derivatives of both chances have no limit at the ends of the support: that of the one which is not taken would make NaN of
    the other's.
    """

    def logarithm(*args: Value) -> Value:
        p, q = chance(*args), rest(*args)
        small = p < 0.5
        return qnp.where(small, ew.log(qnp.where(small, p, 1.0)), ew.log1p(-qnp.where(small, 0.0, q)))

    def slope(value: Value, y: Value, *shapes: Value) -> Value:
        # Where the chance is nothing its logarithm falls without limit, though the density's may be -inf as well.
        nothing = qnp.isneginf(value)
        return sign * qnp.where(nothing, np.inf, ew.exp(logpdf(y, *shapes) - qnp.where(nothing, 0.0, value)))

    return by_density(logarithm, slope)


def by_density(f: Formula, slope: Formula) -> Formula:
    """`f`, whose derivative by the variable is `slope` of its value and arguments, where that of its formula is not finite."""
    known = custom_jvp(f)

    def derivative(primals: Sequence[Value], tangents: Sequence[Any]) -> tuple[Value, Value]:
        (y, *shapes), (t, *by_shapes) = primals, tangents
        value = known(y, *shapes)
        total = qnp.zeros_like(value)
        if not isinstance(t, SymbolicZero):
            total = total + t * slope(value, y, *shapes)
        moved = [k for k, ts in enumerate(by_shapes) if not isinstance(ts, SymbolicZero)]
        if moved:

            def of_moved(*values: Value) -> Value:
                given = dict(zip(moved, values))
                return f(y, *(given.get(k, s) for k, s in enumerate(shapes)))

            total = total + jvp(of_moved, tuple(shapes[k] for k in moved), tuple(by_shapes[k] for k in moved))[1]
        return value, total

    known.defjvp(derivative, symbolic_zeros=True)
    return known


def _split(family: Family, located: tuple[str, ...], rest: Sequence[Value]) -> tuple[list[Value], Any, Any]:
    """Shape parameters, location and scale from the arguments after the first."""
    n = len(family.shapes)
    tail = dict(zip(located, rest[n:]))
    return list(rest[:n]), tail.get("loc", 0.0), tail.get("scale")


def _of_point(family: Family, name: str, located: tuple[str, ...]) -> Formula:
    """A function of a point: formula inside, constants outside."""
    formula, (below_value, above_value) = family.formula(name), _OUTSIDE[name]
    density = name in ("pdf", "logpdf", "pmf", "logpmf")
    held = family.infinite.get(name, ())

    def evaluate(x: Value, *rest: Value) -> Value:
        shapes, loc, scale = _split(family, located, rest)
        distance = x - loc if located else x
        y = distance if scale is None else distance / scale
        allowed: Any = True if scale is None else scale > 0
        if family.discrete and not density:
            y = qnp.floor(y)
        low, high = family.end(family.low, shapes), family.end(family.high, shapes)
        below, above = y < low, y > high
        if -np.inf not in held:
            below = below | qnp.isneginf(y)
        if np.inf not in held:
            above = above | qnp.isposinf(y)
        out = below | above
        if scale is not None:
            # The derivative of the quotient by the scale is infinite at infinite points: nothing times that would be NaN.
            y = qnp.where(out, 0.0, distance) / scale
        if family.discrete and density:
            out = out | (y != qnp.floor(y))
        if family.valid is not None:
            # The formulas see allowed parameters only: what they give for others may not be differentiable.
            allowed = allowed & family.valid(*shapes)
        # What is put in place of points outside may depend on the parameters: its derivatives are nobody's.
        inside = family.end(family.inside, [ew.stop_gradient(s) for s in shapes])
        value = formula(qnp.where(out, inside, y), *shapes)
        if density and scale is not None:
            value = value - ew.log(scale) if name == "logpdf" else value / scale
        outside = qnp.where(below, below_value, above_value)
        value = qnp.where(out, outside, value)
        # A NaN gives one that depends on it, so that the derivatives are NaN as well.
        none = qnp.isnan(distance)
        return qnp.where(allowed, qnp.where(none, distance * qnp.where(none, np.nan, 1.0), value), np.nan)

    return evaluate


def _of_chance(family: Family, name: str, located: tuple[str, ...]) -> Formula:
    """A function of a chance: the quantile of the standard distribution, scaled and shifted."""
    formula = family.formulas[name]

    def evaluate(q: Value, *rest: Value) -> Value:
        shapes, loc, scale = _split(family, located, rest)
        is_chance = (q >= 0) & (q <= 1)
        value = formula(qnp.where(is_chance, q, 0.5), *shapes)
        # What is no chance gives a NaN that depends on it, so that the derivatives are NaN as well; those of steps are 0.
        none = np.nan if family.discrete else q * qnp.where(is_chance, 1.0, np.nan)
        value = qnp.where(is_chance, value, none)
        allowed: Any = True if family.valid is None else family.valid(*shapes)
        if scale is not None:
            allowed = allowed & (scale > 0)
            value = value * scale
        return qnp.where(allowed, value + loc if located else value, np.nan)

    return evaluate


def _of_parameters(family: Family, name: str, located: tuple[str, ...]) -> Formula:
    formula = family.formulas[name]

    def evaluate(*args: Value) -> Value:
        shapes = args[: len(family.shapes)]
        value = formula(*shapes)
        return value if family.valid is None else qnp.where(family.valid(*shapes), value, np.nan)

    return evaluate


def _doc(family: Family, name: str, names: Sequence[str], point: str | None) -> str:
    texts = {**_COMMON, **family.shapes}
    if point is not None:
        kind = "q" if name in ("ppf", "isf") else "k" if family.discrete else "x"
        texts = {point: _POINT[kind], **texts}
    lines = "\n        ".join(f"{n}: {texts[n]}" for n in names)
    what = _WHAT[name].format(what=family.what, point=point)
    example = family.example if point is not None else ", ".join(family.example.split(", ")[1:])
    if name in ("ppf", "isf"):
        example = ", ".join(["0.25", *family.example.split(", ")[1:]])
    return f"""{what}

    Args:
        {lines}

    Returns:
        An array of the shape to which the arguments broadcast; integers become the default float. NaN for parameters
        that are not allowed.

    Follows `scipy.stats.{family.name}.{name}`.

    >>> round(quire.scipy.stats.{family.name}.{name}({example}).item(), 4)
    {family.results[name]}
    """


def _public(family: Family, name: str) -> Callable[..., Value]:
    located = () if name in family.unlocated else family.located
    if name == "entropy":
        point, evaluate = None, _of_parameters(family, name, located)
    elif name in ("ppf", "isf"):
        point, evaluate = family.points.get(name, "q"), _of_chance(family, name, located)
    else:
        point, evaluate = "k" if family.discrete else "x", _of_point(family, name, located)
    names = [*([point] if point else []), *family.shapes, *located]
    defaults = {"loc": 0, "scale": 1}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([
        inspect.Parameter(n, kind, default=defaults[n] if n in located else inspect.Parameter.empty) for n in names
    ])  # fmt: skip
    label = f"stats.{family.name}.{name}"

    def function(*args: Any, **kwargs: Any) -> Value:
        if kwargs or len(args) != len(names):
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"quire.scipy.{label}: {error}: it takes {signature}") from None
            bound.apply_defaults()
            args = bound.args
        xs = operands(label, *args)
        out = widened(evaluate, *xs)
        return cast(out, aval_of(xs[0]).dtype)

    function.__name__ = function.__qualname__ = name
    function.__module__ = f"quire.scipy.stats.{family.name}"
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__doc__ = _doc(family, name, names, point)
    return function


def functions(family: Family) -> Any:
    """The public functions of a distribution, in the order of its examples' results."""
    made = [_public(family, name) for name in family.results]
    return made
