"""Does every stage of a program compute the same numbers? ``dumpir --compare``: the first that does not, and by what.

The reference backend evaluates the program as it was traced and after each pass. Then the optimized program is compiled
twice, for the target without quire's kernels and as it is, and run: once more for the bits, on the calling thread and on
workers. Where a pass is wrong, the first of its rewrites that changes the numbers is looked for; where a compiled program
is, the first equation that gives wrong results alone, of the operands that the reference has.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quire.backends.targets import Target
from quire.ir.errors import QuireError
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from quire.ir.primitives.calls import fusion_p
from quire.ir.source import where
from quire.passes.base import Pass, PassContext
from quire.passes.compare import (
    Difference,
    Equality,
    evaluate,
    first_difference,
    random_inputs,
    rounding_of,
    source_of_result,
)
from quire.runtime.devices import Device, device_of
from quire.runtime.executable import Executable

from .building import Artifact, build
from .loading import load, load_fitting
from .lowering import LoweredProgram, lower_optimized
from .request import Request
from .result_checks import blame, not_comparable, quiet, run
from .stage_texts import Stages

Host = np.ndarray[Any, Any]
MOST_ALONE = 3000
"""A program of more equations is not compiled equation by equation to find the first wrong one."""


@dataclass(frozen=True)
class Verdict:
    """One stage beside the reference: how far it agrees, or where it first differs."""

    stage: str
    found: Equality | Difference | None
    text: str

    @property
    def right(self) -> bool:
        """Whether it has the reference's numbers."""
        return not isinstance(self.found, Difference) and not self.text.startswith("wrong")


@dataclass(frozen=True)
class Comparison:
    """All stages of a program beside the reference.

    Attributes:
        verdicts: of each stage that was run, in order; the first wrong one is the last.
        results: how many the program has.
        fault: what the first wrong stage does wrong, in lines; empty where all is well.
        reason: why something was left out; empty where nothing was.
    """

    verdicts: Sequence[Verdict]
    results: int
    fault: str = ""
    reason: str = ""

    @property
    def largest(self) -> Equality:
        """The largest difference of all stages."""
        equal = [v.found for v in self.verdicts if isinstance(v.found, Equality)]
        return Equality(max((e.largest for e in equal), default=0.0), any(e.explained for e in equal))

    def __str__(self) -> str:
        if self.fault:
            return self.fault
        if not self.verdicts:
            return f"{'no pass changes the program; ' if self.results else 'not compared: '}{self.reason}"
        e = self.largest
        how = ", which rounding explains" if e.explained else ""
        said = f"largest difference {e.largest:.2g}{how}" if e.largest else "to the bit"
        return f"equal, {self.results} results, {said}{f'; {self.reason}' if self.reason else ''}"


def compare_stages(stages: Stages, given: Sequence[Any] | None = None) -> Comparison:
    """Compare all stages of a program on given arguments, or on random ones.

    Raises:
        CompileError: the target's compiler refuses the program.
        PassError: a pass fails.
    """
    reason = not_comparable(stages.program)
    if reason is not None:
        return Comparison((), 0, reason=reason)
    with np.errstate(all="ignore"):  # infinities are compared as other numbers are
        return _Comparing(stages, given).run()


class _Comparing:
    def __init__(self, stages: Stages, given: Sequence[Any] | None) -> None:
        self.stages = stages
        self.verdicts: list[Verdict] = []
        self.set_reference(stages.program, given)

    def set_reference(self, program: ClosedJaxpr, given: Sequence[Any] | None) -> None:
        """Take the program whose numbers count from here on."""
        import quire.backends.reference  # noqa: F401

        self.program = quiet(program)
        args = random_inputs(program.in_avals) if given is None else given
        self.args = [np.asarray(x, a.dtype) for x, a in zip(args, program.in_avals)]
        self.want = evaluate(self.program, self.args)
        self.explain = rounding_of(self.program, self.args, self.want)

    def beside(self, stage: str, got: Sequence[Host]) -> Difference | None:
        """Note how a stage's results compare; gives the difference where they are wrong."""
        found = first_difference(self.want, got, self.explain)
        self.verdicts.append(Verdict(stage, found, str(found)))
        return found if isinstance(found, Difference) else None

    def done(self, fault: str = "", reason: str = "") -> Comparison:
        return Comparison(tuple(self.verdicts), len(self.stages.program.out_avals), fault, reason)

    # -- the passes

    def run(self) -> Comparison:
        for i, record in enumerate(self.stages.result.records):
            p = self.stages.manager.passes[i]
            if not p.keeps_results:
                self.set_reference(record.after, None)
                continue
            if record.after is record.before:
                continue
            difference = self.beside(record.stage, evaluate(quiet(record.after), self.args))
            if difference is not None:
                return self.done(self.blame_pass(p, record.before, record.after, difference))
        return self.compiled()

    def blame_pass(self, p: Pass, before: ClosedJaxpr, after: ClosedJaxpr, difference: Difference) -> str:
        """The first rewrite of a pass that changes the numbers, or else the line of the result."""
        text = f"pass {p} changes the numbers: {difference}"
        last = self.first_wrong_rewrite(p, before)
        if last is None:
            return text + where(source_of_result(after, difference.result))
        return f"{text}\n  by its rule '{last.rule}' on {_shown(last.eqn)}{where(last.eqn.source)}"

    def first_wrong_rewrite(self, p: Pass, before: ClosedJaxpr) -> Any:
        """Search by halves: with fewer rewrites than so many the numbers are right."""

        def applied(most: int | None) -> tuple[PassContext, bool]:
            manager = self.stages.manager
            context = PassContext(manager.target, manager.donated, rewrites=[], most_rewrites=most)
            program = p.apply(before, context)
            found = first_difference(self.want, evaluate(quiet(program), self.args), self.explain)
            return context, isinstance(found, Difference)

        context, wrong = applied(None)
        if not context.rewrites or not wrong:
            return None
        low, high = 0, len(context.rewrites)
        if applied(0)[1]:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if applied(middle)[1] else (middle, high)
        found = applied(high)[0].rewrites
        return found[high - 1] if found and len(found) >= high else None

    # -- the compiled program

    def compiled(self) -> Comparison:
        stages = self.stages
        try:
            device = device_of(stages.target)
        except RuntimeError as error:
            return self.done(reason=f"not run compiled: {error}")
        plain = replace(device.target, kernels=False)
        targets = {"IREE without kernels": plain, "IREE with kernels": device.target} if device.target.kernels else {
            "IREE": device.target
        }  # fmt: skip
        made = self.compile_all(list(targets.values()), device)
        for (stage, target), (lowered, _, executable) in zip(targets.items(), made):
            got = run(executable, lowered.kept, lowered.results, self.program.out_avals, self.args)
            difference = self.beside(stage, got)
            if difference is not None:
                return self.done(self.blame_compiled(stage, target, device, difference))
        lowered, artifact, executable = made[-1]
        return self.repeated(lowered, artifact, executable, device)

    def compile_all(
        self, targets: Sequence[Target], device: Device
    ) -> list[tuple[LoweredProgram, Artifact, Executable]]:
        """The optimized program compiled for each target, at once."""
        program, stages = self.stages.result.program, self.stages
        lowered = [
            stages.lowered
            if t.fingerprint() == stages.target.fingerprint() and t.kernels == stages.target.kernels
            else lower_optimized(replace(stages.request, target=t), program)
            for t in targets
        ]
        with ThreadPoolExecutor(len(targets)) as pool:
            artifacts = list(pool.map(build, lowered))
        out: list[tuple[LoweredProgram, Artifact, Executable]] = []
        for x, artifact in zip(lowered, artifacts):
            fitting, executable = load_fitting(artifact, device, stages.name, lambda x=x: x, x)
            out.append((x, fitting, executable))
        return out

    def repeated(
        self, lowered: LoweredProgram, artifact: Artifact, executable: Executable, device: Device
    ) -> Comparison:
        """The program once more, and on one thread where it ran on several, or on several where on one: the bits."""

        def bits(e: Executable) -> list[Host]:
            return run(e, lowered.kept, lowered.results, self.program.out_avals, self.args)

        first = bits(executable)
        others = {"two runs": executable}
        if device.is_host:
            other = build(replace(lowered, one_thread=not artifact.one_thread))
            others["one worker and several"] = load(other, device, self.stages.name, lowered)
        for stage, e in others.items():
            got = bits(e)
            k = next((k for k, (x, y) in enumerate(zip(first, got)) if x.tobytes() != y.tobytes()), None)
            self.verdicts.append(
                Verdict(stage, None, "the same bits" if k is None else f"wrong: result {k} has other bits")
            )
            if k is not None:
                line = where(source_of_result(self.program, k))
                return self.done(
                    f"{stage} give other bits: result {k}{line}; a kernel reads or writes what another one does"
                )
        return self.done()

    def blame_compiled(self, stage: str, target: Target, device: Device, difference: Difference) -> str:
        """The first equation that gives wrong results alone, with its kernel or rule."""
        passes = f"the {len(self.stages.result.records)} passes" if self.stages.manager.passes else "no passes"
        text = f"the compiled program changes the numbers ({passes} do not: it is lowering or IREE): {difference}"
        program = self.stages.result.program if target.kernels else without_fusions(self.stages.result.program)
        try:
            found = first_wrong_alone(quiet(program), self.args, replace(device.target, kernels=target.kernels), device)
        except (QuireError, MemoryError):
            found = None
        if found is None:
            line = blame(self.program, self.args, device, difference.result)
            return f"{text}\n  in {stage}: each equation alone is right; {line}"
        eqn, wrong, kernels = found
        by = f"kernel {', '.join(kernels)}" if kernels else f"the lowering of {eqn.primitive.name}"
        at = f" at index {wrong.index}" if wrong.index else ""
        return (
            f"{text}\n  in {stage}: the first wrong value is that of {_named(eqn)}{where(eqn.source)}: "
            f"{wrong.after}{at} instead of {wrong.before}\n  by {by}: {_shown(eqn)}"
        )


def _named(eqn: Eqn) -> str:
    return f"fusion ({eqn.params['kind']})" if eqn.primitive is fusion_p else eqn.primitive.name


def _shown(eqn: Eqn) -> str:
    """An equation in one line, without its nested program."""
    given = ", ".join(str(a.value) if isinstance(a, Literal) else a.aval.short() for a in eqn.inputs)
    made = ", ".join(v.aval.short() for v in eqn.outputs)
    return f"{made} = {_named(eqn)} {given}"


def without_fusions(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program with what is inside its fusions in their place."""
    eqns: list[Eqn] = []

    def put(jaxpr: Jaxpr, env: dict[Var, Atom]) -> list[Atom]:
        for e in jaxpr.eqns:
            inputs = [env.get(a, a) if isinstance(a, Var) else a for a in e.inputs]
            if e.primitive is fusion_p:
                inner: Jaxpr = e.params["jaxpr"].jaxpr
                env.update(zip(e.outputs, put(inner, dict(zip(inner.invars, inputs)))))
                continue
            outputs = [Var(v.aval) for v in e.outputs]
            env.update(zip(e.outputs, outputs))
            eqns.append(e.replace(inputs=inputs, outputs=outputs))
        return [env.get(a, a) if isinstance(a, Var) else a for a in jaxpr.outvars]

    outvars = put(program.jaxpr, {})
    return ClosedJaxpr(Jaxpr(program.jaxpr.constvars, program.jaxpr.invars, outvars, eqns), program.consts)


def first_wrong_alone(
    program: ClosedJaxpr, args: Sequence[Host], target: Target, device: Device
) -> tuple[Eqn, Difference, list[str]] | None:
    """The first equation whose compiled results are wrong for the operands that the reference has, and its kernels.

    One module computes all equations, each of arguments of its own; equal ones once. None where none is wrong.
    """
    from quire.backends.reference.engine import eval_jaxpr

    if len(program.jaxpr.eqns) > MOST_ALONE:
        return None
    alone: list[tuple[Eqn, list[Host], Eqn]] = []
    seen: set[Any] = set()
    inputs: list[Var] = []
    values: list[Host] = []

    def observe(eqn: Eqn, operands: Sequence[Host], results: Sequence[Host]) -> None:
        key = (eqn.primitive, tuple(a if isinstance(a, Literal) else a.aval for a in eqn.inputs), repr(eqn.params))
        if key in seen or eqn.effects or not eqn.outputs:
            return
        seen.add(key)
        given: list[Atom] = []
        for a, x in zip(eqn.inputs, operands):
            if isinstance(a, Literal):
                given.append(a)
                continue
            own = Var(a.aval)
            given.append(own)
            inputs.append(own)
            values.append(np.asarray(x))
        apart = eqn.replace(inputs=given, outputs=[Var(v.aval) for v in eqn.outputs])
        alone.append((eqn, [np.asarray(r) for r in results], apart))

    eval_jaxpr(program, *args, observe=observe)
    eqns = [apart for _, _, apart in alone]
    whole = ClosedJaxpr(Jaxpr((), inputs, [v for e in eqns for v in e.outputs], eqns))
    lowered = lower_optimized(Request(whole, target, "alone", keep_unused=True), whole)
    artifact, executable = load_fitting(build(lowered), device, "alone", lambda: lowered, lowered)
    got = run(executable, lowered.kept, lowered.results, whole.out_avals, values)
    at = 0
    for eqn, want, apart in alone:
        mine = got[at : at + len(want)]
        at += len(want)
        one = ClosedJaxpr(Jaxpr((), [a for a in apart.inputs if isinstance(a, Var)], apart.outputs, [apart]))
        given = [values[inputs.index(v)] for v in one.jaxpr.invars]
        found = first_difference(want, mine, rounding_of(one, given, want))
        if isinstance(found, Difference):
            return eqn, found, sorted({k.symbol for k in lowered.module.kernels if k.path[0] is apart})
    return None


__all__ = ["Comparison", "Verdict", "compare_stages", "first_wrong_alone", "without_fusions"]
