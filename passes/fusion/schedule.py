"""Stages: numbers for equations such that equal ones can be computed together, whatever else the program does.

Two neighbours of one space (elementwise equations of arrays of one size) may share a stage; between any other two, the
reader's stage is the larger. A path that leaves a group of one stage therefore never comes back to it, and any number
of groups can be made one equation each at once: all of it is linear in the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quire.ir.jaxpr import Atom, Eqn, Var

#: The operands that an equation reads at places which it computes.
Whole = Callable[[Eqn], Sequence[Atom]]


def stages(eqns: Sequence[Eqn], spaces: Sequence[int | None], whole: Whole = lambda e: ()) -> list[int]:
    """The stage of each equation; `spaces` tells which ones may share a stage with their neighbours (None: none).

    What an equation reads as a `whole`, and not element by element, has an earlier stage.

    An equation is as early as what it depends on lets it be, but one that reads nothing of its own space waits for its
    first reader, so that its result is not kept meanwhile.
    """
    maker = {v: i for i, e in enumerate(eqns) for v in e.outputs}
    # For each equation those it waits for, and whether its stage is then later: 0 or 1.
    before: list[dict[int, int]] = []
    last: int | None = None
    for j, (e, space) in enumerate(zip(eqns, spaces, strict=True)):
        steps: dict[int, int] = {}
        for a in e.inputs:
            if isinstance(a, Var) and a in maker:
                i = maker[a]
                near = space is not None and spaces[i] == space and a not in whole(e)
                steps[i] = max(steps.get(i, 0), 0 if near else 1)
        if e.effects:  # they keep their order
            if last is not None:
                steps[last] = 1
            last = j
        before.append(steps)

    early = [0] * len(eqns)
    for j, steps in enumerate(before):
        for i, step in steps.items():
            early[j] = max(early[j], early[i] + step)
    late: list[int | None] = [None] * len(eqns)
    for j in reversed(range(len(eqns))):
        own = late[j]
        if own is None or spaces[j] is None:
            own = late[j] = early[j]
        for i, step in before[j].items():
            known = late[i]
            late[i] = own - step if known is None else min(known, own - step)
    stage = [0] * len(eqns)
    for j, steps in enumerate(before):
        least, joins = 0, False
        for i, step in steps.items():
            earliest = stage[i] + step
            if earliest > least:
                least, joins = earliest, step == 0
            elif earliest == least and step == 0:
                joins = True
        latest = late[j]
        assert latest is not None
        stage[j] = least if joins else max(least, latest)
    return stage


__all__ = ["stages"]
