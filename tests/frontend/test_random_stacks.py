"""Random programs under random stacks of transformations: reference, compiled and (for derivatives) each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import quire
from quire.backends import reference
from quire.ir import dtypes
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.tracing import eval_jaxpr
from quire.ir.verifier import verify

from ..helpers import run_compiled, trace
from ..programs import inputs, programs

FLOATS = (dtypes.float32,)
PROGRAMS = 24
LANES = 2

Function = Callable[..., list[Any]]


def apply(program: ClosedJaxpr) -> Function:
    return lambda *xs: eval_jaxpr(program.jaxpr, program.consts, xs)


def scalar(f: Function) -> Callable[..., Any]:
    """The sum of the inexact results."""

    def total(*xs: Any) -> Any:
        out: Any = np.float32(0)
        for y in f(*xs):
            if dtypes.is_inexact(y.dtype):
                out = out + y.sum()
        return out

    return total


def grad(f: Function, n: int) -> Function:
    return lambda *xs: list(quire.grad(scalar(f), argnums=tuple(range(n)))(*xs))


def value_and_grad(f: Function, n: int) -> Function:
    def g(*xs: Any) -> list[Any]:
        value, grads = quire.value_and_grad(scalar(f), argnums=tuple(range(n)))(*xs)
        return [value, *grads]

    return g


def jvp(f: Function, n: int) -> Function:
    def g(*xs: Any) -> list[Any]:
        out, tangents = quire.jvp(f, xs, tuple(x * 0.5 + 0.25 for x in xs))
        return [*out, *(t for t in tangents if t.dtype != dtypes.float0)]

    return g


def vmap(f: Function, n: int) -> Function:
    def g(*xs: Any) -> list[Any]:
        rows = [quire.numpy.stack([x, x * 0.5]) for x in xs]
        return quire.vmap(f)(*rows)

    return g


def vmap_first(f: Function, n: int) -> Function:
    """Only the first argument is mapped, along its last dimension."""

    def g(*xs: Any) -> list[Any]:
        first = quire.numpy.stack([xs[0], -xs[0]], axis=-1)
        return quire.vmap(f, in_axes=(-1, *[None] * (n - 1)), out_axes=-1)(first, *xs[1:])

    return g


def jit(f: Function, n: int) -> Function:
    return quire.jit(f)


def checkpoint(f: Function, n: int) -> Function:
    return quire.checkpoint(f)


STACK = (grad, value_and_grad, jvp, vmap, vmap_first, jit, checkpoint)


def stacked(program: ClosedJaxpr, stack: Sequence[Any]) -> Function:
    f = apply(program)
    for transformation in stack:
        f = transformation(f, len(program.in_avals))
    return f


# Order at most two, so that numbers stay moderate.
stacks = st.lists(st.sampled_from(STACK), min_size=1, max_size=4).filter(
    lambda s: sum(t in (grad, value_and_grad, jvp) for t in s) <= 2
)


def close(got: Any, want: Any) -> bool:
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    ok = np.isfinite(want) & (np.abs(want) < 1e6)
    scale = np.max(np.abs(want[ok]), initial=1.0)
    return got.shape == want.shape and bool(np.allclose(got[ok], want[ok], rtol=1e-3, atol=1e-4 * scale))


def test_compiled_like_reference() -> None:
    """Many programs in one compiled module."""
    chosen: list[tuple[ClosedJaxpr, list[Any]]] = []

    @settings(max_examples=PROGRAMS, database=None, deadline=None, phases=[Phase.generate], derandomize=True,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(programs(max_steps=6, dtypes=FLOATS, control_flow=True), stacks)
    def collect(program: ClosedJaxpr, stack: list[Any]) -> None:
        program = ClosedJaxpr(program.jaxpr, program.consts)
        if all(dtypes.is_float(a.dtype) for a in program.in_avals) and "while" not in str(program):
            chosen.append((program, stack))

    collect()
    assert len(chosen) >= PROGRAMS // 2
    flat_args: list[Any] = []
    functions: list[tuple[Function, list[Any], str]] = []
    for program, stack in chosen:
        args = inputs(program)
        f = stacked(program, stack)
        closed = trace(f, args)
        verify(closed)
        names = " of ".join(t.__name__ for t in reversed(stack))
        functions.append((f, args, f"{names}:\n{program}"))
        flat_args.extend(args)

    def everything(*flat: Any) -> list[Any]:
        out: list[Any] = []
        position = 0
        for f, args, _ in functions:
            out.extend(f(*flat[position : position + len(args)]))
            position += len(args)
        return out

    results = iter(run_compiled(trace(everything, flat_args), flat_args))
    for f, args, text in functions:
        for i, want in enumerate(reference.eval_jaxpr(trace(f, args), *args)):
            got = next(results)
            assert close(got, want), f"result {i} of {text}\n{got}\n{want}"


@settings(max_examples=40, database=None, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(programs(max_steps=6, dtypes=FLOATS))
def test_forward_and_reverse_agree(program: ClosedJaxpr) -> None:
    """<ct, J t> = <J^T ct, t> at any point."""
    args = inputs(program)
    f = scalar(apply(program))
    tangents = tuple(np.full(x.shape, 0.5, x.dtype) for x in args)
    _, forward = quire.jvp(f, tuple(args), tangents)
    grads = quire.grad(f, argnums=tuple(range(len(args))))(*args)
    backward = sum(float((np.asarray(g, np.float64) * t).sum()) for g, t in zip(grads, tangents))
    assert close(forward, backward)
