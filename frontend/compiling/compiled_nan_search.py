"""The first NaN or infinity that only the compiled program makes: the target's own numbers, equation by equation.

The optimized program, whose equations are its kernels, is compiled once more with all its values as results, and these are
looked at in order. An equation makes what the reference backend does not make of the same operands: a fusion may hold an
infinity on purpose, as masks do. A loop is gone into: its body is compiled so too, and run turn by turn on what the turn
before gave.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from quire.backends.reference.engine import eval_jaxpr, evaluate
from quire.ir import dtypes
from quire.ir.errors import QuireError
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, nested_jaxprs
from quire.ir.primitives import calls, control_flow
from quire.runtime.devices import Device, device_of
from quire.runtime.executable import Executable

from ..watching.nan_search import Found, Turn, bad, bad_element, kind_of
from .loading import compile_lowered
from .lowering import LoweredProgram, lower_optimized
from .request import Request
from .result_checks import MOST_VALUES, not_comparable, quiet, reference_results, run
from .stage_texts import Stages

Host = np.ndarray[Any, Any]
_NONE = np.zeros(0)
MOST_TURNS = 10_000
"""A loop is followed for so many turns."""


def search_compiled(stages: Stages, args: Sequence[Host], *, infinities: bool = True) -> Found | None:
    """The first NaN or infinity of a compiled program whose results hold one for some arguments; None where they do not, and
    for programs that call functions of the user's, which are not called twice.

    Where the program with all its values as results makes none, the equation is None, and `result` tells which result has it.

    Raises:
        CompileError: the target's compiler refuses the program.
        RuntimeError: there is no device of its target here.
    """
    if not_comparable(stages.program) is not None:
        return None
    device = device_of(stages.target)
    lowered, program = stages.lowered, quiet(stages.result.program)
    values = [np.asarray(x, a.dtype) for x, a in zip(args, program.in_avals)]
    results = run(compile_lowered(lowered, device), lowered.kept, lowered.results, program.out_avals, values)
    if all(bad(r, infinities) is None for r in results):
        return None
    wanted = reference_results(stages.program, values)
    made = [only_in(r, w, infinities) for r, w in zip(results, wanted)]
    k = next((k for k, where_bad in enumerate(made) if where_bad is not None), None)
    if k is None:  # the program gives infinities that it was given
        return None
    searching = _Searching(device, infinities)
    try:
        found = searching.within(program, values, ())
    except (QuireError, MemoryError):  # with all its values as results the program may be too large
        found = None
    if found is not None:
        return found
    where_bad = made[k]
    assert where_bad is not None
    text = bad_element("", (), results[k], where_bad)
    return Found(kind_of(results[k], where_bad), None, None, (), text, True, result=k)


def only_in(got: Host, want: Host, infinities: bool) -> Host | None:
    """Where one array is bad and the other is not; None if nowhere."""
    found = bad(got, infinities)
    if found is None:
        return None
    other = bad(want, infinities)
    found = found if other is None else found & ~other
    return found if found.any() else None


class _Searching:
    def __init__(self, device: Device, infinities: bool) -> None:
        self.device, self.infinities = device, infinities
        self.compiled: dict[int, tuple[ClosedJaxpr, LoweredProgram, Executable]] = {}

    def values(self, closed: ClosedJaxpr, args: Sequence[Host]) -> tuple[dict[Var, Host], LoweredProgram]:
        """All values of a program, as the target computes them."""
        known = self.compiled.get(id(closed.jaxpr))
        if known is None:
            jaxpr = closed.jaxpr
            made = [v for e in jaxpr.eqns for v in e.outputs if v.aval.dtype != dtypes.float0]
            whole = ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, made, jaxpr.eqns), closed.consts)
            lowered = lower_optimized(Request(whole, self.device.target, "values", keep_unused=True), whole)
            known = self.compiled[id(closed.jaxpr)] = whole, lowered, compile_lowered(lowered, self.device)
        whole, lowered, executable = known
        got = run(executable, lowered.kept, lowered.results, whole.out_avals, args)
        env = dict(zip((*whole.jaxpr.constvars, *whole.jaxpr.invars), (*whole.consts, *args)))
        env.update((a, x) for a, x in zip(whole.jaxpr.outvars, got) if isinstance(a, Var))
        return env, lowered

    def within(self, closed: ClosedJaxpr, args: Sequence[Host], turns: tuple[Turn, ...]) -> Found | None:
        """The first bad value that is made in a program; None where none is, or it has too many values."""
        if not 0 < len(closed.jaxpr.eqns) <= MOST_VALUES:
            return None
        env, lowered = self.values(closed, args)
        if all(bad(x, self.infinities) is None for x in env.values()):
            return None
        return self.first(closed.jaxpr, env, lowered, turns) or self.later(closed, args, env, lowered, turns)

    def first(
        self, jaxpr: Jaxpr, env: dict[Var, Host], lowered: LoweredProgram, turns: tuple[Turn, ...]
    ) -> Found | None:
        """The first equation that makes what the reference does not make of its operands, or what is within it."""
        for eqn in jaxpr.eqns:
            results = [env.get(v, _NONE) for v in eqn.outputs]
            if all(bad(r, self.infinities) is None for r in results):
                continue
            operands = [_read(a, env) for a in eqn.inputs]
            wanted = evaluate(eqn.primitive, operands, eqn.params, [v.aval for v in eqn.outputs])
            made = (
                (r, b) for r, w in zip(results, wanted) if (b := only_in(r, np.asarray(w), self.infinities)) is not None
            )
            at = next(made, None)
            if at is not None:
                return self.inside(eqn, operands, turns) or self.found(eqn, operands, *at, lowered, turns)
        return None

    def found(
        self, eqn: Eqn, operands: Sequence[Host], value: Host, where_bad: Host, lowered: LoweredProgram,
        turns: tuple[Turn, ...],
    ) -> Found:  # fmt: skip
        """What is said of an equation and one of its results."""
        kernels = tuple(sorted({k.symbol for k in lowered.module.kernels if k.path[0] is eqn}))
        # What an element of a loop's or a call's result comes from is not told by the operands' elements.
        given = operands if not any(nested_jaxprs(eqn.params)) or eqn.primitive is calls.fusion_p else ()
        text = bad_element(eqn.primitive.name, given, value, where_bad)
        return Found(kind_of(value, where_bad), eqn, None, turns, text, True, kernels=kernels)

    def later(
        self, closed: ClosedJaxpr, args: Sequence[Host], env: dict[Var, Host], lowered: LoweredProgram,
        turns: tuple[Turn, ...],
    ) -> Found | None:  # fmt: skip
        """The first bad value where the reference's own run of the program has none.

        Each equation alone is right then: numbers that are nearly equal become infinite in one of the two, or a number
        that is too small to be normal is a zero on the target, by which is divided.
        """
        want: dict[Var, Host] = {}

        def observe(eqn: Eqn, operands: Sequence[Host], results: Sequence[Host]) -> None:
            want.update(zip(eqn.outputs, map(np.asarray, results)))

        eval_jaxpr(closed, *args, observe=observe)
        for eqn in closed.jaxpr.eqns:
            for v in eqn.outputs:
                at = only_in(env[v], want[v], self.infinities) if v in env and v in want else None
                if at is not None:
                    return self.found(eqn, [_read(a, env) for a in eqn.inputs], env[v], at, lowered, turns)
        return None

    def inside(self, eqn: Eqn, operands: Sequence[Host], turns: tuple[Turn, ...]) -> Found | None:
        """What makes the bad value within a loop, a branch or a call; None for what holds no program, or makes none so."""
        p, params = eqn.primitive, eqn.params
        if p is control_flow.cond_p:
            branches: Sequence[ClosedJaxpr] = params["branches"]
            chosen = int(np.clip(operands[0], 0, len(branches) - 1))
            return self.within(branches[chosen], operands[1:], turns)
        if p in (control_flow.scan_p, control_flow.while_p, control_flow.bounded_while_p):
            of_turns = self.scan(params, operands) if p is control_flow.scan_p else self.loop(params, operands)
            for number, (body, args) in enumerate(of_turns):
                found = self.within(body, args, (*turns, Turn(eqn, number)))
                if found is not None or number >= MOST_TURNS:
                    return found
            return None
        nested = list(nested_jaxprs(params))
        if p is calls.fusion_p or len(nested) != 1:
            return None
        inner = nested[0] if isinstance(nested[0], ClosedJaxpr) else ClosedJaxpr(nested[0])
        if [a.strong() for a in inner.in_avals] != [a.aval.strong() for a in eqn.inputs]:
            return None  # no call: what a reduction or a scatter does with two elements
        return self.within(inner, operands, turns)

    def scan(self, params: Any, operands: Sequence[Host]) -> Iterator[tuple[ClosedJaxpr, Sequence[Host]]]:
        """What each turn of a scan is given."""
        body: ClosedJaxpr = params["jaxpr"]
        consts, carries, length = params["num_consts"], params["num_carry"], params["length"]
        fixed, carry, xs = operands[:consts], operands[consts : consts + carries], operands[consts + carries :]
        for n in range(length if body.jaxpr.eqns else 0):
            i = length - 1 - n if params["reverse"] else n
            given = [*fixed, *carry, *(np.ascontiguousarray(x[i]) for x in xs)]
            yield body, given
            carry = self.results(body, given)[:carries]

    def loop(self, params: Any, operands: Sequence[Host]) -> Iterator[tuple[ClosedJaxpr, Sequence[Host]]]:
        """What each turn of a while loop is given."""
        cond: ClosedJaxpr = params["cond_jaxpr"]
        body: ClosedJaxpr = params["body_jaxpr"]
        of_cond, of_body = params["cond_nconsts"], params["body_nconsts"]
        asked, fixed = operands[:of_cond], operands[of_cond : of_cond + of_body]
        carry = list(operands[of_cond + of_body :])
        most = params.get("max_steps")
        n = 0
        while body.jaxpr.eqns and (most is None or n < most):
            (goes_on,) = self.results(cond, [*asked, *carry])
            if not goes_on:
                return
            yield body, [*fixed, *carry]
            carry = self.results(body, [*fixed, *carry])
            n += 1

    def results(self, closed: ClosedJaxpr, args: Sequence[Host]) -> list[Host]:
        """A program's results, as the target computes them."""
        if not closed.jaxpr.eqns:
            env = dict(zip((*closed.jaxpr.constvars, *closed.jaxpr.invars), (*closed.consts, *args)))
        else:
            env, _ = self.values(closed, args)
        return [_read(a, env) for a in closed.jaxpr.outvars]


def _read(a: Atom, env: dict[Var, Host]) -> Host:
    if isinstance(a, Literal):
        return a.value
    return env[a] if a in env else np.zeros(a.aval.shape, dtypes.float0)


__all__ = ["search_compiled"]
