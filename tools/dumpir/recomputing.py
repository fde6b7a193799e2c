"""What computing values again would save of a program's memory, and what it would cost: for ``dumpir --memory``.

The program is planned once more with the pass `rematerialize`, so the peak then is the plan's, not an estimate. What the
computing costs is estimated as all work is (`passes/cost.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quire.compiling.stage_texts import Stages
from quire.ir.errors import size_text
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr, nested_jaxprs
from quire.passes.cost import estimate
from quire.passes.rematerialize import Candidate, Lives, Rematerialize, candidates, inner_peak

from .answers import count_text, place_text
from .memory import Memory, memory_of

ROWS = 3
"""So many values are shown."""
CHEAP, DEAR, NEVER = "cheap", "dear", "held"


@dataclass(frozen=True)
class Again:
    """Alike values that are held across the peak.

    Attributes:
        count, bytes, type: how many, bytes of all, the type of each.
        primitives: of the equations that make them, in order.
        line: of the user's, of these.
        how: "cheap"; "dear" where a product or the like has to be computed again; "held" where it cannot be (made by a loop).
        operations: that make each again of what is held anyway, summed up.
    """

    count: int
    bytes: int
    type: str
    primitives: Sequence[str]
    line: str
    how: str
    operations: float


@dataclass(frozen=True)
class Saving:
    """What the program is with some values computed again.

    Attributes:
        what: "cheap", or "dear": the cheap ones and those that take one product.
        values, bytes: how many are computed again, and their bytes.
        held: the most of intermediate values that is held at one time then.
        transient: bytes of the block for them then.
        operations, share: how many more are computed, and in proportion to the program's.
    """

    what: str
    values: int
    bytes: int
    held: int
    transient: int
    operations: float
    share: float


@dataclass(frozen=True)
class Recomputing:
    """The values that might be computed again, those of most bytes first, and what that would make of the program."""

    values: Sequence[Again]
    savings: Sequence[Saving]


def by_recomputing(stages: Stages, memory: Memory) -> Recomputing | None:
    """What computing values again would save; None where none is held across work.

    Raises:
        CompileError: the plan refuses the program.
    """
    names = [p.name for p in stages.manager.passes]
    if Rematerialize.name in names:
        return None
    at = names.index("fuse") if "fuse" in names else len(names)
    before: ClosedJaxpr = (stages.program, *(r.after for r in stages.result.records))[at]
    values = _held(before.jaxpr)
    if not any(c.again for c in values):
        return None
    savings: list[Saving] = []
    for what, p in ((CHEAP, Rematerialize()), (DEAR, Rematerialize(products=True))):
        passes = [*map(str, stages.manager.passes[:at]), str(p), *map(str, stages.manager.passes[at:])]
        other = Stages(stages.request, ",".join(passes), options=stages.options, verify_each=False)
        record = other.result.records[at]
        chosen = [c for c in _held(before.jaxpr, products=p.products) if c.chosen]
        if not chosen or (savings and len(chosen) == savings[-1].values):
            continue
        m = memory_of(other, stages.names, stages.out_tree)
        known, more = estimate(before.jaxpr).flops, estimate(record.after.jaxpr).flops
        savings.append(
            Saving(
                what, len(chosen), sum(c.var.aval.nbytes for c in chosen), m.held, m.transient, more - known,
                (more - known) / max(known, 1.0),
            )
        )  # fmt: skip
    return Recomputing(_alike(values), savings)


def _held(jaxpr: Jaxpr, *, products: bool = False) -> list[Candidate]:
    """The values that are held across the peak, also those of the loop's body in which it is."""
    lives = Lives(jaxpr)
    found = candidates(jaxpr, lives, products=products)
    if lives.peak is not None and inner_peak(jaxpr.eqns[lives.peak]):
        nested = [j.jaxpr if isinstance(j, ClosedJaxpr) else j for j in nested_jaxprs(jaxpr.eqns[lives.peak].params)]
        for inner in {id(j): j for j in nested}.values():
            found += _held(inner, products=products)
    return found


def _alike(values: Sequence[Candidate]) -> list[Again]:
    found: dict[tuple[str, str, str], list[Candidate]] = {}
    for c in values:
        how = NEVER if not c.again else DEAR if c.dear else CHEAP
        found.setdefault((c.var.aval.short(), place_text(c.eqn.source), how), []).append(c)
    rows: list[Again] = []
    for (kind, line, how), same in found.items():
        names = tuple(dict.fromkeys(c.eqn.primitive.name for c in same))
        bytes_, operations = sum(c.var.aval.nbytes for c in same), sum(c.cost.flops for c in same)
        rows.append(Again(len(same), bytes_, kind, names, line, how, operations))
    return sorted(rows, key=lambda a: -a.bytes)


def recomputing_text(found: Recomputing, memory: Memory) -> list[str]:
    """A few lines: the largest values, and what is held at the peak if they are computed again."""
    lines = ["held for later, though it could be computed again (quire.checkpoint; --passes with rematerialize)"]
    for a in found.values[:ROWS]:
        of = f"{a.count} x {a.type}" if a.count > 1 else a.type
        by = ", ".join([*a.primitives[:3], *(["..."] if len(a.primitives) > 3 else [])])
        cost = "by a loop or a call: stays" if a.how == NEVER else f"{a.how}: {count_text(a.operations)} operations"
        lines.append(f"  {size_text(a.bytes):>11}  {of}  {by}{f' ({a.line})' if a.line else ''}, {cost}")
    if rest := found.values[ROWS:]:
        lines.append(f"  {size_text(sum(a.bytes for a in rest)):>11}  in {sum(a.count for a in rest)} more")
    for s in found.savings:
        which = "the cheap ones" if s.what == CHEAP else "those that take one product, too"
        then = f"{size_text(s.held)} at the peak instead of {size_text(memory.held)}"
        if s.held >= memory.held:
            then = f"no less at the peak ({size_text(s.held)})"
        more = f"{count_text(s.operations)} operations more ({100 * s.share:.2g} %)"
        lines.append(f"  {which} ({s.values} values, {size_text(s.bytes)}): {then}, {more}")
    return lines
