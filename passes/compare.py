"""Do two programs give the same numbers? `first_difference` of two lists of results, for all that compares them.

What differs by a few units in the last place is equal. What differs by more is equal where rounding explains it, which
the reference backend finds out by running the program with noise (`backends/reference/rounding.py`): so the tolerance of
each element follows its dtype, the lengths of sums, and what is done with differences of large numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import ml_dtypes
import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.errors import PassError
from quire.ir.jaxpr import ClosedJaxpr, Literal, Var
from quire.ir.source import Source
from quire.ir.tracing import hooks

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Difference:
    """The first result in which two programs differ by more than rounding.

    Attributes:
        result: its number.
        index: the first element that differs; () for a scalar, and where shape or dtype differ.
        before, after: that element in both.
        count, size: how many elements differ, of how many.
        largest: the largest difference among them (NaN where one is no number).
        explained: what rounding explains of the element at `index`; None: nothing was looked at.
    """

    result: int
    index: tuple[int, ...]
    before: Any
    after: Any
    count: int = 1
    size: int = 1
    largest: float = 0.0
    explained: float | None = None

    def __str__(self) -> str:
        at = f" at index {self.index}" if self.index else ""
        text = f"result {self.result}{at} was {self.before}, is {self.after}"
        if self.size > 1:
            text += f"; {self.count} of {self.size} elements differ"
        if self.explained is not None:
            text += f"{';' if self.size == 1 else ','} by {self.largest:.3g} at most, rounding explains {self.explained:.3g}"
        return text


@dataclass(frozen=True)
class Equality:
    """Two programs that agree.

    Attributes:
        largest: the largest difference of two elements, in proportion to the larger of the element and the result's
            root mean square.
        explained: whether some differ by more than a few units in the last place, which rounding explains.
    """

    largest: float
    explained: bool

    def __str__(self) -> str:
        if not self.largest:
            return "equal to the bit" if not self.explained else "equal"
        how = ", which rounding explains" if self.explained else ""
        return f"equal, with a largest relative difference of {self.largest:.2g}{how}"


def evaluate(program: ClosedJaxpr, args: Sequence[Any]) -> list[Array]:
    """The results of a program by the reference rules. Raises PassError where these are not loaded."""
    if hooks.reference is None:
        raise PassError("programs can be compared only when the reference backend is loaded: import quire")
    jaxpr = program.jaxpr
    env: dict[Var, Array] = {}
    for v, x in zip((*jaxpr.constvars, *jaxpr.invars), (*program.consts, *args), strict=True):
        env[v] = np.asarray(x, dtype=v.aval.dtype)
    for eqn in jaxpr.eqns:
        operands = [a.value if isinstance(a, Literal) else env[a] for a in eqn.inputs]
        env.update(
            zip(eqn.outputs, hooks.reference(eqn.primitive, operands, eqn.params, [v.aval for v in eqn.outputs]))
        )
    return [a.value if isinstance(a, Literal) else env[a] for a in jaxpr.outvars]


def random_inputs(avals: Sequence[ShapedArray], seed: int = 0) -> list[Array]:
    """Inputs of the given types: moderate numbers of both signs, the same for the same seed."""
    rng = np.random.default_rng(seed)
    return [_random(rng, a) for a in avals]


def _random(rng: np.random.Generator, aval: ShapedArray) -> Array:
    d = aval.dtype
    if d == dtypes.float0:
        return np.zeros(aval.shape, d)
    if dtypes.is_bool(d):
        return np.asarray(rng.integers(0, 2, aval.shape)).astype(bool)
    if dtypes.is_integer(d):
        low = 0 if dtypes.is_unsigned(d) else -9
        return np.asarray(rng.integers(low, 10, aval.shape)).astype(d)
    x = rng.standard_normal(aval.shape)
    if dtypes.is_complex(d):
        return (x + 1j * rng.standard_normal(aval.shape)).astype(d)
    return np.asarray(x).astype(d)


def rounding_of(program: ClosedJaxpr, args: Sequence[Any], results: Sequence[Array]) -> Callable[[], list[Array]]:
    """How far rounding may take the reference's results, found out when it is first asked for."""
    found: list[list[Array]] = []

    def explain() -> list[Array]:
        if not found:
            if hooks.spread is None:
                return [np.zeros(r.shape) for r in results]
            found.append(hooks.spread(program, args, results))
        return found[0]

    return explain


def first_difference(
    want: Sequence[Array], got: Sequence[Array], explain: Callable[[], Sequence[Array]]
) -> Difference | Equality:
    """Where results first differ by more than rounding, or how far they agree.

    `explain` gives what rounding explains of each element of `want`; it is called where elements differ by more than a
    few units in the last place.
    """
    largest, explained = 0.0, False
    for i, (x, y) in enumerate(zip(want, got, strict=True)):
        if x.shape != y.shape or x.dtype != y.dtype:
            return Difference(i, (), f"{x.dtype}{list(x.shape)}", f"{y.dtype}{list(y.shape)}")
        if x.dtype == dtypes.float0 or not x.size:
            continue
        away, allowed, scale = _distances(x, y)
        bad = ~(away <= allowed)
        if bad.any():
            explained = True
            allowed = allowed + explain()[i]
            bad = ~(away <= allowed)
        if bad.any():
            index = tuple(int(k) for k in np.argwhere(bad)[0])
            known = away[bad][np.isfinite(away[bad])]
            return Difference(
                i, index, x[index], y[index], int(bad.sum()), x.size, float(known.max()) if known.size else float("nan"),
                float(allowed[index]),
            )  # fmt: skip
        with np.errstate(all="ignore"):
            relative = np.where((away == 0) | ~np.isfinite(away), 0.0, away / scale)
        largest = max(largest, float(relative.max()))
    return Equality(largest, explained)


def _limits(dtype: Any) -> tuple[float, float]:
    """The unit in the last place of 1, and the smallest normal number."""
    info = cast("Any", ml_dtypes.finfo(dtype))
    return float(info.eps), float(info.tiny)


def _distances(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """How far apart two arrays are, a few units in the last place, and the elements' sizes; per element."""
    if not dtypes.is_inexact(x.dtype):
        away = np.where(x == y, 0.0, np.abs(x.astype(np.float64) - y.astype(np.float64)))
        return np.where((x != y) & (away == 0), 1.0, away), np.zeros(x.shape), np.ones(x.shape)
    eps, tiny = _limits(x.dtype)
    wide = np.complex128 if dtypes.is_complex(x.dtype) else np.float64
    a, b = x.astype(wide), y.astype(wide)
    with np.errstate(all="ignore"):
        size = np.hypot(*(np.where(np.isfinite(p), p, 0.0) for p in (a.real, a.imag)))
        # By parts: where one is infinite in both, the other says how far apart they are.
        away = np.hypot(*(np.where(p == q, 0.0, p - q) for p, q in ((a.real, b.real), (a.imag, b.imag))))
        away = np.where(np.isnan(a) & np.isnan(b), 0.0, np.where(np.isfinite(away), away, np.inf))
        scale = np.maximum(size, np.sqrt(np.mean(size * size)))
    units = 1 if x.dtype.itemsize == 2 else 8
    # Denormal numbers may be flushed to zero.
    return away, size * (eps * units) + 2 * tiny, np.maximum(scale, tiny)


def source_of_result(program: ClosedJaxpr, result: int) -> Source | None:
    """The user's line of the equation that makes a result; None where there is none."""
    atom = program.jaxpr.outvars[result]
    return next((e.source for e in reversed(program.jaxpr.eqns) if atom in e.outputs), None)


def compare(before: ClosedJaxpr, after: ClosedJaxpr, args: Sequence[Any] | None = None) -> Difference | Equality:
    """Whether two programs agree by the reference backend, on random inputs where none are given."""
    args = random_inputs(before.in_avals) if args is None else args
    want = evaluate(before, args)
    return first_difference(want, evaluate(after, args), rounding_of(before, args, want))
