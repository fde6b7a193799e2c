"""What a program became: its launches with their kernels, the equations these compute, and their estimated work."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from quire.backends.plan.plan import Plan, Step, lines_of, walk
from quire.backends.stablehlo.choices import Choice, KernelUse
from quire.compiling.memory_analysis import main_plan
from quire.compiling.stage_texts import Stages
from quire.ir.jaxpr import Eqn, has_nested
from quire.ir.primitives.calls import fusion_p
from quire.passes.cost import Cost, estimate_eqn

_OF_IREE = re.compile(r"^(?:\w+?_)?dispatch_\d+_?(.*)$")


@dataclass(frozen=True)
class Launch:
    """A step of the plan that computes: its kernel's name, bytes that it touches, and the user's lines (``model.py:3,7``)."""

    symbol: str
    bytes: int
    lines: str

    @property
    def ours(self) -> bool:
        """Whether it is a kernel of quire's own."""
        return _OF_IREE.match(self.symbol) is None

    @property
    def kind(self) -> str:
        """What sort of kernel it is: ``gemm``, ``attention``; ``IREE: reduction`` for what IREE formed."""
        found = _OF_IREE.match(self.symbol)
        if found is None:
            return self.symbol.rsplit("_", 1)[0]
        return "IREE: " + (re.split(r"_?\d", found[1])[0] or found[1] or "dispatch")


class Survey:
    """The launches, kernels and choices of a program whose stages are given. No code is made for it."""

    def __init__(self, stages: Stages) -> None:
        self.stages = stages
        self.module = stages.lowered.module

    @property
    def choices(self) -> Sequence[Choice]:
        """The forms that equations were given, where there was a choice."""
        return self.module.choices

    @property
    def kernels(self) -> Sequence[KernelUse]:
        """The calls of quire's own kernels, in order."""
        return self.module.kernels

    @cached_property
    def refusals(self) -> list[Choice]:
        """The choices by which an equation is no kernel, or not the one that was tried first."""
        return [c for c in self.choices if not c.text.startswith("kernel ")]

    @cached_property
    def plan(self) -> Plan | None:
        """The plan; None where nothing is computed."""
        computed = any(kind == "result" for kind, _ in self.stages.lowered.results)
        return main_plan(self.stages["plan"]) if computed else None

    @cached_property
    def steps(self) -> list[Step]:
        """The steps of the plan, those within loops after them."""
        return [] if self.plan is None else list(walk(self.plan.steps))

    @cached_property
    def launches(self) -> list[Launch]:
        """The plan's launches, in order; what a loop launches once a turn counts once."""
        return [
            Launch(s.op.name, sum(r.length for r in s.ranges), lines_of(s))
            for s in self.steps
            if s.kind == "dispatch" and s.op is not None
        ]

    def work_by_symbol(self) -> dict[str, Cost]:
        """The estimated work of one call of each of quire's kernels; of several for one equation the last counts.

        Those before it lay operands out.
        """
        last = {id(self.computed_by(k)): k for k in self.kernels}
        found: dict[str, Cost] = {}
        for k in self.kernels:
            eqn = self.computed_by(k)
            if last[id(eqn)] is k:
                found[k.symbol] = estimate_eqn(eqn)
            else:
                found.setdefault(k.symbol, Cost(0, 0))
        return found

    @staticmethod
    def computed_by(k: KernelUse) -> Eqn:
        """The equation that a kernel computes: the fusion that it is, or else the innermost one that called it."""
        return next((e for e in k.path if e.primitive is fusion_p), k.path[-1])


def eqn_text(eqn: Eqn, width: int = 100) -> str:
    """An equation in few words: types, primitive and a fusion's kind; without its nested program."""
    out = ", ".join(v.aval.short() for v in eqn.outputs)
    given = ", ".join(a.aval.short() for a in eqn.inputs)
    what = eqn.primitive.name
    if eqn.primitive is fusion_p:
        what += f"[{eqn.params['kind']}: {inside_text(eqn)}]"
    elif has_nested(eqn.params) and "name" in eqn.params:
        what += f"[{eqn.params['name']}]"
    text = f"{out} = {what} {given}"
    return text if len(text) <= width else text[: width - 3] + "..."


def inside_text(eqn: Eqn) -> str:
    """The primitives within a fusion, each once, with its count."""
    counts: dict[str, int] = {}
    for e in leaves(eqn):
        counts[e.primitive.name] = counts.get(e.primitive.name, 0) + 1
    return " ".join(name if n == 1 else f"{n} {name}" for name, n in counts.items())


def leaves(eqn: Eqn) -> Iterator[Eqn]:
    """The equations within a fusion; those of other equations are their own."""
    if eqn.primitive is not fusion_p:
        yield eqn
        return
    for e in eqn.params["jaxpr"].jaxpr.eqns:
        yield from leaves(e)
