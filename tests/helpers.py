"""Comparing the ways to run a program: compiled, by the reference backend, and under JAX.

Compiling costs 0.3 s a module, so a table of cases becomes one module: every case's arguments are arguments of it,
every case's results are results of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quire import tree_util
from quire.backends import reference
from quire.compiling.compiler import compile_program
from quire.compiling.request import Request
from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.tracing import close_captured, trace_flat
from quire.runtime import buffers
from quire.runtime.devices import Device, devices


@dataclass
class Case:
    """One call: `f` of flat arrays to an array or a sequence of them, its arguments, and what it is compared with.

    Attributes:
        expect: a function of the same arguments (NumPy, JAX) that gives the right results; None: the reference only.
        rtol, atol: tolerances of inexact results, in the units of NumPy's allclose; integers compare exactly.
        exact: compare bits of inexact results too (NaN equals NaN, zeros with their signs).
        compiled: whether it is also run compiled.
    """

    name: str
    f: Callable[..., Any]
    args: Sequence[Any]
    expect: Callable[..., Any] | None = None
    rtol: float | None = None
    atol: float | None = None
    exact: bool = False
    compiled: bool = True
    params: dict[str, Any] = field(default_factory=dict)


# Tolerance of one rounding or a few, by dtype.
RTOL = {
    dtypes.float16: 2e-3, dtypes.bfloat16: 1.6e-2, dtypes.float32: 2e-6, dtypes.float64: 1e-13,
    dtypes.complex64: 4e-6, dtypes.complex128: 1e-13,
}  # fmt: skip


def thinned(cases: Sequence[Case], n: int) -> list[Case]:
    """The same cases, of which only each n-th is run compiled: for tables that repeat one kernel over many shapes.

    `n` should share no factor with the period of the table, so that what is compiled has some of everything.
    """
    return [dataclasses.replace(c, compiled=c.compiled and i % n == 0) for i, c in enumerate(cases)]


def as_list(out: Any) -> list[Any]:
    return list(out) if isinstance(out, list | tuple) else [out]


def leaves(f: Any) -> Any:
    """The function with its results as a flat list."""
    return lambda *args: tree_util.tree_leaves(f(*args))


def array(dtype: Any, *shape: int) -> np.ndarray[Any, Any]:
    """Small numbers with repetitions, exact in every dtype."""
    x = (np.arange(int(np.prod(shape))) * 5 % 7 - 3).reshape(shape)
    return x > 0 if dtypes.is_bool(np.dtype(dtype)) else (np.abs(x) if np.dtype(dtype).kind == "u" else x).astype(dtype)


def trace(f: Callable[..., Any], args: Sequence[Any]) -> ClosedJaxpr:
    """The closed jaxpr of a flat function."""
    jaxpr, captured, _ = trace_flat(lambda *xs: as_list(f(*xs)), [aval_of(a) for a in args], name="test")
    return close_captured(jaxpr, captured)


def run_compiled(closed: ClosedJaxpr, args: Sequence[Any], device: Device | None = None) -> list[np.ndarray[Any, Any]]:
    """Compile a closed jaxpr and run it; the results as NumPy arrays."""
    device = devices("cpu")[0] if device is None else device
    program = compile_program(Request(closed, device.target, "test"), device)
    arrays = [np.asarray(a, dtype=v.dtype) for a, v in zip(args, closed.in_avals, strict=True)]
    out = program.executable.execute([buffers.from_numpy(arrays[i], device, copy=True) for i in program.artifact.kept])
    results: list[np.ndarray[Any, Any]] = []
    for (kind, i), aval in zip(program.artifact.results, program.out_avals, strict=True):
        if kind == "argument":
            results.append(arrays[i])
        else:
            results.append(np.array(buffers.to_numpy(out[i], device, aval.dtype, aval.shape)))
    return results


def _expected(cases: Sequence[Case]) -> list[list[Any] | None]:
    """What each case should give; oracles that can compute several results at once do so."""
    found: list[Any] = [None] * len(cases)
    batches: dict[Callable[..., Any], list[int]] = {}
    for i, c in enumerate(cases):
        together = getattr(c.expect, "together", None)
        if together is not None:
            batches.setdefault(together, []).append(i)
        elif c.expect is not None:
            found[i] = c.expect(*c.args)
    for together, numbers in batches.items():
        for i, out in zip(numbers, together([(cases[i].expect, cases[i].args) for i in numbers])):
            found[i] = out
    return [None if out is None else [np.asarray(x) for x in as_list(out)] for out in found]


def check(cases: Sequence[Case], device: Device | None = None, *, compiled: bool = True) -> None:
    """Run every case by the reference and in one compiled module, and compare with each other and `expect`.

    All differences are reported together.
    """
    failures: list[str] = []
    closed = [trace(c.f, c.args) for c in cases]
    referenced = [reference.eval_jaxpr(j, *c.args) for j, c in zip(closed, cases)]
    programs = [(c, want) for c, want in zip(cases, referenced) if compiled and c.compiled]
    if programs:
        flat_args = [a for c, _ in programs for a in c.args]

        def everything(*flat: Any) -> list[Any]:
            out: list[Any] = []
            position = 0
            for c, _ in programs:
                out.extend(as_list(c.f(*flat[position : position + len(c.args)])))
                position += len(c.args)
            return out

        values = run_compiled(trace(everything, flat_args), flat_args, device)
        position = 0
        for c, want in programs:
            got = values[position : position + len(want)]
            position += len(want)
            failures.extend(_differences(c, "compiled", got, "reference", want))
    for c, have, want in zip(cases, referenced, _expected(cases)):
        if want is not None:
            failures.extend(_differences(c, "reference", have, "expected", want))
    assert not failures, f"{len(failures)} differences:\n" + "\n".join(failures[:40])


def _differences(c: Case, what: str, got: Sequence[Any], than: str, want: Sequence[Any]) -> list[str]:
    if len(got) != len(want):
        return [f"{c.name}: {what} has {len(got)} results, {than} {len(want)}"]
    out: list[str] = []
    for i, (g, w) in enumerate(zip(got, want)):
        problem = difference(np.asarray(g), np.asarray(w), c.rtol, c.atol, c.exact)
        if problem:
            out.append(f"{c.name}[{i}]: {what} differs from {than}: {problem}")
    return out


def difference(
    got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], rtol: float | None, atol: float | None, exact: bool = False
) -> str | None:
    """How two arrays differ, or None."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if not got.size:
        return None
    if dtypes.is_inexact(want.dtype) and not exact:
        wide = np.complex128 if dtypes.is_complex(want.dtype) else np.float64
        rtol = RTOL[want.dtype] if rtol is None else rtol
        close = np.isclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=atol or 0.0, equal_nan=True)
    elif dtypes.is_inexact(want.dtype):
        g, w = got.astype(np.complex128), want.astype(np.complex128)
        same = ((g.real == w.real) | (np.isnan(g.real) & np.isnan(w.real))) & (
            (g.imag == w.imag) | (np.isnan(g.imag) & np.isnan(w.imag))
        )
        close = same & ((w != 0) | (np.signbit(g.real) == np.signbit(w.real)))
    else:
        close = got == want
    if np.all(close):
        return None
    bad = np.argwhere(~np.asarray(close))
    at = tuple(int(i) for i in bad[0])
    return f"{len(bad)} of {got.size} elements, first at {at}: {got[at]!r} instead of {want[at]!r}"
