"""Stages: numbers for equations such that equal ones can be computed together, whatever else the program does.

Two neighbours of one space (elementwise equations of arrays of one size) may share a stage; between any other two, the
reader's stage is the larger. A path that leaves a group of one stage therefore never comes back to it, and any number
of groups can be made one equation each at once: all of it is linear in the program.
"""

from __future__ import annotations

from collections.abc import Sequence

from quire.ir.jaxpr import Eqn, Var


def stages(eqns: Sequence[Eqn], spaces: Sequence[int | None]) -> list[int]:
    """The stage of each equation; `spaces` tells which ones may share a stage with their neighbours (None: none).

    An equation is as early as what it depends on lets it be, but one that reads nothing of its own space waits for its
    first reader, so that its result is not kept meanwhile.
    """
    maker = {v: i for i, e in enumerate(eqns) for v in e.outputs}
    before = [list(dict.fromkeys(maker[a] for a in e.inputs if isinstance(a, Var) and a in maker)) for e in eqns]
    last: int | None = None
    for i, e in enumerate(eqns):
        if e.effects:  # they keep their order
            if last is not None:
                before[i].append(last)
            last = i

    def step(i: int, j: int) -> int:
        return 0 if spaces[i] is not None and spaces[i] == spaces[j] else 1

    early = [0] * len(eqns)
    for j, makers in enumerate(before):
        early[j] = max((early[i] + step(i, j) for i in makers), default=0)
    late: list[int | None] = [None] * len(eqns)
    for j in reversed(range(len(eqns))):
        own = late[j]
        if own is None or spaces[j] is None:
            own = late[j] = early[j]
        for i in before[j]:
            bound = own - step(i, j)
            known = late[i]
            late[i] = bound if known is None else min(known, bound)
    stage = [0] * len(eqns)
    for j, makers in enumerate(before):
        least = max((stage[i] + step(i, j) for i in makers), default=0)
        joins = any(stage[i] == least and step(i, j) == 0 for i in makers)
        latest = late[j]
        assert latest is not None
        stage[j] = least if joins else max(least, latest)
    return stage


__all__ = ["stages"]
