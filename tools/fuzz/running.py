"""Running programs in all ways and comparing: what is found."""

from __future__ import annotations

import hashlib
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as onp

import quire
from quire import tree_util
from quire.backends import reference
from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.config import config
from quire.ir.errors import UnsupportedError
from quire.ir.jaxpr import ClosedJaxpr, Literal, nested_jaxprs
from quire.ir.tracing import close_captured, trace_flat
from quire.passes.compare import Difference, first_difference, rounding_of
from quire.runtime.devices import default_platform

from .program import Program, library_names

Array = onp.ndarray[Any, Any]
#: One of so many programs is also computed operation by operation, which takes as long as its compiled form.
EAGER = 2


@dataclass(frozen=True)
class Finding:
    """Something that should not be.

    Attributes:
        kind: "refused", "failed", "crashed", "wrong", "passes", "eager", "reference", "unstable", "argument", "process".
        text: one line that tells it.
        programs: what to run together to see it.
    """

    kind: str
    text: str
    programs: tuple[Program, ...]

    @property
    def signature(self) -> str:
        """What findings of one cause are likely to share."""
        words = "".join("#" if c.isdigit() else c for c in self.text)
        return f"{self.kind}: {words[:100]}"


@dataclass
class Outcome:
    """Of a batch.

    Attributes:
        explained: differences that rounding explains.
        both_refuse, accepted: programs that neither library computes, that quire alone computes.
        unsupported: programs of which quire says that the device cannot compute them, other devices than the CPU.
        oracle: results that JAX compiled differ from JAX's own without its compiler, which quire's equal; and programs
            with which JAX ends the process.
    """

    programs: int = 0
    explained: int = 0
    both_refuse: int = 0
    accepted: int = 0
    unsupported: int = 0
    oracle: int = 0
    findings: list[Finding] = field(default_factory=list)
    digest: str = ""

    def add(self, other: Outcome) -> None:
        self.programs += other.programs
        self.explained += other.explained
        self.both_refuse += other.both_refuse
        self.accepted += other.accepted
        self.unsupported += other.unsupported
        self.oracle += other.oracle
        self.findings += other.findings


@dataclass
class _Run:
    """One program on its way."""

    program: Program
    function: Callable[..., Any]
    values: list[Array]
    closed: ClosedJaxpr
    want: list[Array]


def described(error: BaseException) -> str:
    """An exception in one line."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
    told = [line.split(":", 1)[1].strip() for line in lines[1:] if line.strip().startswith("first diagnostic:")]
    return f"{type(error).__name__}: {(told or lines)[0][:300]}"


@contextmanager
def width(x64: bool) -> Iterator[None]:
    """64-bit dtypes on or off, for quire and (where it is loaded) JAX."""
    import sys

    jax = sys.modules.get("jax")
    before = None
    if jax is not None:
        before = jax.config.jax_enable_x64
        jax.config.update("jax_enable_x64", x64)
    try:
        with config.override(enable_x64=x64):
            yield
    finally:
        if jax is not None:
            jax.config.update("jax_enable_x64", before)


def traced(function: Callable[..., Any], values: Sequence[Array]) -> ClosedJaxpr:
    """The closed jaxpr of a function, its results flat."""
    jaxpr, captured, _ = trace_flat(
        lambda *xs: tree_util.tree_leaves(function(*xs)), [aval_of(x) for x in values], name="program"
    )
    return close_captured(jaxpr, captured)


def run_batch(programs: Sequence[Program], *, jax: bool = True, twice: bool = True, compiled: bool = True) -> Outcome:
    """Run programs of one width, compiled together; or only up to the module that would be compiled."""
    outcome = Outcome(programs=len(programs))
    if jax:
        import jax as _  # noqa: F401
    with width(programs[0].x64), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _run_batch(programs, outcome, jax, twice, compiled)
    return outcome


def _run_batch(programs: Sequence[Program], outcome: Outcome, jax: bool, twice: bool, compiled: bool) -> None:
    names = library_names("quire")
    runs: list[_Run] = []
    for p in programs:
        values = p.values()
        try:
            function = p.function(names)
            closed = traced(function, values)
        except Exception as error:
            if jax:
                outcome.findings += _refused(p, error, outcome)
            else:
                outcome.both_refuse += 1
            continue
        try:
            want = reference.eval_jaxpr(closed, *p.values())
        except Exception as error:
            outcome.findings.append(Finding("failed", f"reference: {described(error)}", (p,)))
            continue
        runs.append(_Run(p, function, values, closed, want))
    for run in runs:
        if run.program.seed % EAGER == 0:
            _eager(run, outcome)
    digest = hashlib.sha256()
    if compiled:
        for part in _compiled(runs, outcome, twice):
            digest.update(part)
    else:
        for run in runs:
            _lowered(run, outcome)
    outcome.digest = digest.hexdigest()
    if jax:
        _against_jax(runs, outcome)


# -- operation by operation


def _eager(run: _Run, outcome: Outcome) -> None:
    """Eager operations give the same; of programs without loops and derivatives, which are programs that are compiled."""
    if run.program.stack or any(s.blocks for s in run.program.statements):
        return
    try:
        results = run.function(*(quire.device_put(onp.array(x)) for x in run.values))
        got = [onp.asarray(x) for x in tree_util.tree_leaves(results)]
    except Exception as error:
        outcome.findings.append(Finding("failed", f"eager: {described(error)}", (run.program,)))
        return
    finding = _compared(run, got, outcome, "eager", "operation by operation")
    if finding is not None:
        outcome.findings.append(finding)


# -- passes and lowering


def _lowered(run: _Run, outcome: Outcome) -> None:
    """The program after the passes gives the same by the reference, and is lowered."""
    from quire.compiling.lowering import lower_optimized, optimize
    from quire.compiling.request import Request
    from quire.runtime.devices import devices

    target = devices("cpu")[0].target
    donated = tuple(i for i, a in enumerate(run.program.args) if a.donated)
    request = Request(run.closed, target, "main", donated)
    try:
        optimized = optimize(request)
        got = reference.eval_jaxpr(optimized, *run.program.values())
        lower_optimized(request, optimized)
    except Exception as error:
        outcome.findings.append(Finding("failed", described(error), (run.program,)))
        return
    finding = _compared(run, got, outcome, "passes", "after the passes")
    if finding is not None:
        outcome.findings.append(finding)


# -- compiled


def _compiled(runs: Sequence[_Run], outcome: Outcome, twice: bool) -> Iterator[bytes]:
    """Compile and run programs together; where that fails, in halves. Yields the results' bytes."""
    if not runs:
        return
    try:
        first, second, changed = _execute(runs, twice)
    except Exception as error:
        if len(runs) == 1:
            if isinstance(error, UnsupportedError) and default_platform() != "cpu":
                outcome.unsupported += 1
            else:
                outcome.findings.append(Finding("failed", described(error), (runs[0].program,)))
        else:
            before = len(outcome.findings)
            half = len(runs) // 2
            yield from _compiled(runs[:half], outcome, twice)
            yield from _compiled(runs[half:], outcome, twice)
            if len(outcome.findings) == before:
                together = tuple(r.program for r in runs)
                outcome.findings.append(Finding("failed", f"together: {described(error)}", together))
        return
    for k, run in enumerate(runs):
        if changed[k]:
            outcome.findings.append(Finding("argument", f"argument {changed[k]} changed", (run.program,)))
        for i, (x, y) in enumerate(zip(first[k], second[k])):
            if x.tobytes() != y.tobytes():
                differ = onp.argwhere((x != y) & ((x == x) | (y == y)))
                at = tuple(int(n) for n in differ[0]) if len(differ) else None
                text = f"result {i} differs between two calls" + (
                    " in bits only" if at is None else f": {x[at]} at {at}, then {y[at]}"
                )
                outcome.findings.append(Finding("unstable", text, (run.program,)))
                break
        finding = _compared(run, first[k], outcome, "wrong", "compiled")
        if finding is not None:
            if len(runs) > 1:  # alone too? Otherwise it takes all of them.
                alone = Outcome()
                list(_compiled([run], alone, twice))
                outcome.findings += alone.findings or [
                    Finding("wrong", "together: " + finding.text, tuple(r.program for r in runs))
                ]
            else:
                outcome.findings.append(finding)
        for x in first[k]:
            yield x.tobytes()


def _execute(runs: Sequence[_Run], twice: bool) -> tuple[list[list[Array]], list[list[Array]], list[str]]:
    """The results of two calls, and the name of an argument of each that changed."""
    counts = [len(r.values) for r in runs]
    starts = [sum(counts[:k]) for k in range(len(runs))]
    donated = [s + i for s, r in zip(starts, runs) for i, a in enumerate(r.program.args) if a.donated]

    def together(*flat: Any) -> Any:
        return [tree_util.tree_leaves(r.function(*flat[s : s + n])) for r, s, n in zip(runs, starts, counts)]

    f = quire.jit(together, donate_argnums=tuple(donated))
    changed = [""] * len(runs)
    calls: list[list[list[Array]]] = []
    for _ in range(2 if twice else 1):
        flat = [quire.device_put(onp.array(x)) for r in runs for x in r.values]
        out = f(*flat)
        calls.append([[onp.array(y) for y in ys] for ys in out])
        for k, (r, s) in enumerate(zip(runs, starts)):
            for i, a in enumerate(r.program.args):
                if not a.donated and onp.asarray(flat[s + i]).tobytes() != r.values[i].tobytes():
                    changed[k] = a.name
    return calls[0], calls[-1], changed


# -- JAX


def _jax_results(functions: Sequence[Callable[..., Any]], values: Sequence[Sequence[Array]]) -> list[list[Array]]:
    import jax

    def together(inputs: Any) -> Any:
        return [jax.tree_util.tree_leaves(f(*xs)) for f, xs in zip(functions, inputs)]

    inputs = [[jax.numpy.asarray(x) for x in xs] for xs in values]  # without jit they stay what they are
    return [[onp.array(y) for y in ys] for ys in jax.jit(together)(inputs)]


def _refused(p: Program, error: Exception, outcome: Outcome) -> list[Finding]:
    """A program that quire refuses to trace: a finding where JAX computes it."""
    try:
        _jax_results([p.function(library_names("jax"))], [p.values()])
    except Exception:
        outcome.both_refuse += 1
        return []
    return [Finding("refused", described(error), (p,))]


def _against_jax(runs: Sequence[_Run], outcome: Outcome) -> None:
    import jax

    names = library_names("jax")
    if not runs:
        return
    try:
        results = _jax_results([r.program.function(names) for r in runs], [r.program.values() for r in runs])
    except Exception:
        if len(runs) == 1:
            outcome.accepted += 1
            return
        half = len(runs) // 2
        _against_jax(runs[:half], outcome)
        _against_jax(runs[half:], outcome)
        return
    for run, expected in zip(runs, results):
        finding = _compared(run, expected, outcome, "reference", "by JAX")
        if finding is None:
            continue
        # XLA too writes into what is still read: `x.at[1:].add(x[:-1])` behind a barrier. Operation by operation it is right.
        with jax.disable_jit():
            try:
                eager = _jax_results([run.program.function(names)], [run.program.values()])[0]
            except Exception:  # not every program runs without jit
                eager = expected
        if _compared(run, eager, Outcome(), "reference", "by JAX") is None:
            outcome.oracle += 1
        else:
            outcome.findings.append(finding)


# -- comparing


def _compared(run: _Run, got: Sequence[Array], outcome: Outcome, kind: str, what: str) -> Finding | None:
    """Compare results with the reference's; a finding if they differ by more than rounding explains."""
    if len(got) != len(run.want):
        return Finding(kind, f"{len(got)} results {what}, {len(run.want)} by the reference", (run.program,))
    explain = rounding_of(run.closed, run.values, run.want)

    def by_another_way() -> list[Array]:
        """JAX's numbers may come by sums of other terms, whose rounding is that of the largest numbers around, or twice that."""
        around = max((_size(x) for x in (*run.values, *_numbers(run.closed))), default=0.0)
        return [2 * allowed + _unit_of_largest(want, around) for allowed, want in zip(explain(), run.want)]

    if kind == "reference":  # what overflows float16 on JAX's way to a derivative need not on another
        got = [
            onp.where(onp.isfinite(w) & ~onp.isfinite(g), w, g) if _is_f16(w, g) else g for w, g in zip(run.want, got)
        ]
    found = first_difference(run.want, got, by_another_way if kind == "reference" else explain)
    if isinstance(found, Difference):
        return Finding(kind, f"by the reference (was) and {what} (is): {found}", (run.program,))
    outcome.explained += found.explained
    return None


def _numbers(program: ClosedJaxpr) -> Iterator[Any]:
    """The constants of a program and of what is nested in it."""
    yield from program.consts
    for eqn in program.jaxpr.eqns:
        yield from (a.value for a in eqn.inputs if isinstance(a, Literal))
        for inner in nested_jaxprs(eqn.params):
            yield from _numbers(inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, []))


def _size(x: Any) -> float:
    """The largest finite element; 0 where it is so large that it must have a meaning of its own."""
    x = onp.asarray(x)
    if x.dtype == dtypes.float0 or not dtypes.is_inexact(x.dtype) or not x.size:
        return 0.0
    size = onp.abs(x.astype(onp.complex128))
    largest = float(onp.max(size, where=onp.isfinite(size), initial=0.0))
    return largest if largest < 1e4 else 0.0


def _is_f16(*arrays: Array) -> bool:
    return all(x.dtype == dtypes.float16 for x in arrays) and len({x.shape for x in arrays}) == 1


def _unit_of_largest(x: Array, around: float) -> float:
    """A few units in the last place of the largest element, or of the numbers around it."""
    if x.dtype == dtypes.float0 or not dtypes.is_inexact(x.dtype):
        return 0.0
    return 4 * float(ml_dtypes.finfo(x.dtype).eps) * max(_size(x), around)


def failure_of(error: BaseException) -> str:
    """The last lines of a traceback: for faults of this tool itself."""
    return "".join(traceback.format_exception(error))[-1500:]
