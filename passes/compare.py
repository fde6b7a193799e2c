"""Do two programs give the same numbers? Both are run by the reference backend on the same inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.errors import PassError
from quire.ir.jaxpr import ClosedJaxpr, Literal, Var
from quire.ir.tracing import hooks

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Difference:
    """The first result in which two programs differ."""

    result: int
    index: tuple[int, ...]
    before: Any
    after: Any

    def __str__(self) -> str:
        at = f" at index {self.index}" if self.index else ""
        return f"result {self.result}{at} was {self.before}, is {self.after}"


def evaluate(program: ClosedJaxpr, args: Sequence[Any]) -> list[Array]:
    """The results of a program by the reference rules."""
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
        return rng.integers(0, 2, aval.shape).astype(bool)
    if dtypes.is_integer(d):
        low = 0 if dtypes.is_unsigned(d) else -9
        return rng.integers(low, 10, aval.shape).astype(d)
    x = rng.standard_normal(aval.shape)
    if dtypes.is_complex(d):
        return (x + 1j * rng.standard_normal(aval.shape)).astype(d)
    return np.asarray(x).astype(d)


_TOLERANCE = {dtypes.float16: 1e-2, dtypes.bfloat16: 5e-2, dtypes.float32: 1e-4, dtypes.complex64: 1e-4}


def first_difference(before: ClosedJaxpr, after: ClosedJaxpr, args: Sequence[Any] | None = None) -> Difference | None:
    """Where two programs first differ by more than rounding; None if they agree."""
    args = random_inputs(before.in_avals) if args is None else args
    for i, (x, y) in enumerate(zip(evaluate(before, args), evaluate(after, args), strict=True)):
        if x.shape != y.shape or x.dtype != y.dtype:
            return Difference(i, (), f"{x.dtype}{list(x.shape)}", f"{y.dtype}{list(y.shape)}")
        if x.dtype == dtypes.float0:
            continue
        if dtypes.is_inexact(x.dtype):
            wide = np.complex128 if dtypes.is_complex(x.dtype) else np.float64
            a, b = x.astype(wide), y.astype(wide)
            tolerance = _TOLERANCE.get(x.dtype, 1e-9)
            with np.errstate(all="ignore"):
                scale = np.max(np.abs(a), initial=0.0, where=np.isfinite(a))
                same = np.isclose(a, b, rtol=tolerance, atol=tolerance * scale * 1e-2, equal_nan=True)
        else:
            same = x == y
        if not np.all(same):
            index = tuple(int(k) for k in np.argwhere(~np.asarray(same))[0])
            return Difference(i, index, x[index], y[index])
    return None
