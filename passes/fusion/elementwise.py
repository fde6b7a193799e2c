"""Clusters of elementwise equations: those of one number of elements that depend on each other, or read the same.

A gather of single elements is a function of its indices, element by element; the array that it reads is a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from quire.ir.jaxpr import Eqn, Jaxpr, Var
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st
from quire.ir.primitives.calls import fusion_p
from quire.ir.weights import weight

from .clusters import Cluster
from .forms import HasForm, form
from .gathers import is_gather_of_elements, joined_for, read_anywhere
from .schedule import stages

# What elementwise kernels read by another index, without memory of its own; slices and transposes they do not.
_MOVES = (st.broadcast_in_dim_p, st.reshape_p, st.iota_p)
#: Operations in one kernel: much more, and the compiler's registers are spilled and its time grows.
MOST_WEIGHT = 1500
#: Arrays that one kernel reads and writes: IREE's limit is 32.
MOST_ARRAYS = 28
#: Clusters of so many operations are kernels: IREE takes long to form dispatches of them.
LEAST_WEIGHT = 50
#: So many equations of small arrays are a kernel too, also if they are several updates that are alike (see `alike`).
LEAST_EQNS, SMALL = 8, 1 << 16
#: In a loop a kernel is paid for in each turn. There those equations stay with IREE where arrays have fewer elements than
#: this, or where they read such parts of others, from which IREE reads in place.
LEAST_IN_LOOPS = 16
_READ_IN_PLACE = (st.slice_p, st.transpose_p, st.rev_p, ix.dynamic_slice_p)
#: Operands with so many times fewer elements may be dispatches of their own; those that are spread over short rows, which IREE
#: reads badly.
MUCH_SMALLER, SMALLER = 16, 2
#: Broadcast operands with fewer neighbours than this in a row are gathered, which IREE does not need to.
LEAST_RUN = 16


def elementwise_clusters(
    jaxpr: Jaxpr, has_form: HasForm, least_gathered: int, in_loop: bool = False, large: int | None = None
) -> list[Cluster]:
    """Disjoint clusters of what has a form in kernels; no two wait for each other.

    Light equations of at least `large` elements (None: of no number) are clusters too, if IREE would compute them in a
    dispatch of their own: it divides two dimensions of odd lengths badly, and takes twice the time for 1000x1000 elements
    that it takes for as many in a row.

    Gathers of fewer elements than the least are left to IREE, which fuses them with what reads them; `in_loop`, light
    equations that it can compute without memory of their own.
    """

    def gathers(e: Eqn) -> bool:
        return is_gather_of_elements(e, least_gathered)

    eqns = jaxpr.eqns
    readers: dict[Var, list[int]] = {}
    for i, e in enumerate(eqns):
        for a in e.inputs:
            if isinstance(a, Var):
                readers.setdefault(a, []).append(i)
    spaces = _spaces(jaxpr, readers, has_form, gathers)
    if not any(s is not None for s in spaces):
        return []
    maker = {v: i for i, e in enumerate(eqns) for v in e.outputs}
    returned = {a for a in jaxpr.outvars if isinstance(a, Var)}
    stage = stages(eqns, spaces, read_anywhere)
    groups = _groups(eqns, spaces, stage)
    found: list[Cluster] = []
    light: dict[Hashable, list[Cluster]] = {}
    program = _Program(eqns, maker, readers)
    for group in groups:
        is_large = large is not None and _size_of(eqns[group[0]]) >= large
        if is_large or len(group) > 1 or gathers(eqns[group[0]]) or weight(eqns[group[0]]) >= LEAST_WEIGHT:
            for part in _parts(eqns, group, readers, returned):
                part = _without_loose(eqns, part, readers)
                if not part or _is_constant(eqns, part):
                    continue
                heaviest = max(part, key=lambda i: weight(eqns[i]) if eqns[i].primitive is not st.concatenate_p else -1)
                shape = eqns[heaviest].outputs[0].aval.shape
                cluster = Cluster("elementwise", frozenset(part), heaviest, shape, ())
                members, size = [eqns[i] for i in part], eqns[heaviest].outputs[0].aval.size
                if _worthwhile(members, size):
                    if not in_loop or _is_heavy(members) or _stands_alone(eqns, part, maker, size):
                        found.append(cluster)
                elif is_large and program.reason_against(part) is None:
                    found.append(cluster)
                # What is alike is merged in the program itself, not in its loops.
                elif not in_loop and (key := _light(eqns, part, maker, readers, returned)) is not None:
                    light.setdefault(key, []).append(cluster)
    # Several that are alike become one kernel (`alike`).
    for alike in light.values():
        if len(alike) > 1 and len(alike) * _counted(eqns[i] for i in alike[0].eqns) >= LEAST_EQNS:
            found += alike
    return found


@dataclass(frozen=True)
class _Program:
    """Equations, by their numbers, and who makes and reads their values."""

    eqns: Sequence[Eqn]
    maker: dict[Var, int]
    readers: dict[Var, list[int]]

    def reason_against(self, group: Sequence[int]) -> str | None:
        """Why light equations are better left to IREE; None where it would compute them in a dispatch with nothing else.

        What they read is then stored, or is small beside what they make; that is stored too, by what its readers are.
        """
        inside, eqns, size = set(group), self.eqns, _size_of(self.eqns[group[0]])
        spread = [
            eqns[i] for i in group if eqns[i].primitive is st.broadcast_in_dim_p and eqns[i].inputs[0].aval.size > 1
        ]
        in_blocks = bool(spread) and _in_blocks(spread)
        smaller = SMALLER if in_blocks else MUCH_SMALLER
        for i in group:
            for a in eqns[i].inputs:
                maker = self.maker.get(a) if isinstance(a, Var) else None
                if maker is None or maker in inside or _stores(eqns[maker]) or a.aval.size * smaller <= size:
                    continue
                return f"IREE computes them in one dispatch with {eqns[maker].primitive.name}, whose result they read"
            for j in (j for v in eqns[i].outputs for j in self.readers.get(v, ())):
                if j not in inside and not _stores(eqns[j]):
                    return f"IREE computes them in one dispatch with {eqns[j].primitive.name}, which reads their result"
        if not any(weight(eqns[i]) for i in group):
            return "they compute nothing"
        if any(_run(e) < LEAST_RUN for e in spread) and not in_blocks:
            return f"an operand is spread over rows of fewer than {LEAST_RUN} elements, which a kernel would gather one by one"
        return None


#: Equations of these families are dispatches or calls of their own: what they read and make is stored.
_STORED = frozenset(("contraction", "control_flow", "calls", "sorting", "linalg", "fft", "random", "collectives"))
#: So are these, of other families.
_STORED_TOO = (
    rd.cumsum_p, rd.cumprod_p, rd.cummax_p, rd.cummin_p, rd.cumlogsumexp_p, st.optimization_barrier_p, ix.gather_p,
)  # fmt: skip


def _stores(e: Eqn) -> bool:
    return e.primitive.family in _STORED or e.primitive in _STORED_TOO or e.primitive.name.startswith("scatter")


def _size_of(e: Eqn) -> int:
    return e.outputs[0].aval.size


def _run(e: Eqn) -> int:
    """Neighbours of a broadcast's result that are neighbours of the operand, or all one number."""
    x, out = e.inputs[0].aval, e.outputs[0].aval
    given: dict[int, int] = dict(zip(e.params["broadcast_dimensions"], x.shape))
    run, along = 1, None
    for d in reversed(range(out.ndim)):
        spread = given.get(d, 1) == 1
        if out.shape[d] > 1 and along is None:
            along = spread
        if out.shape[d] > 1 and spread != along:
            break
        run *= out.shape[d]
    return run


def _in_blocks(spread: Sequence[Eqn]) -> bool:
    """Whether broadcasts have rows of one length, each the same row again, or one number of the operand for each row in order."""
    rows = {_run(e) for e in spread}
    if len(rows) != 1:
        return False
    (n,) = rows

    def sizes(e: Eqn) -> tuple[int, int]:
        """Elements of the operand: those that it has, and those that it has in the one case or the other."""
        x, out = e.inputs[0].aval, e.outputs[0].aval
        given: dict[int, int] = dict(zip(e.params["broadcast_dimensions"], x.shape))
        last = max(d for d in range(out.ndim) if out.shape[d] > 1)
        return x.size, out.size // n if given.get(last, 1) == 1 else n

    return all(has == wanted for has, wanted in map(sizes, spread))


def _light(
    eqns: Sequence[Eqn], group: list[int], maker: dict[Var, int], readers: dict[Var, list[int]], returned: set[Var]
) -> Hashable | None:
    """What a group computes that is too light for a kernel of its own; None where IREE does well with it.

    It is the update of a small array: it reads arguments and what kernels make, and nothing reads its results. Others
    IREE fuses with what makes their operands, or reads their results.
    """
    size = eqns[group[0]].outputs[0].aval.size
    inside = set(group)
    made = [v for i in group for v in eqns[i].outputs]
    if size > SMALL or any(j not in inside for v in made for j in readers.get(v, ())):
        return None
    read = list(dict.fromkeys(a for i in group for a in eqns[i].inputs if isinstance(a, Var) and a not in set(made)))
    if any(a in maker and eqns[maker[a]].primitive is not fusion_p for a in read):
        return None
    return form([eqns[i] for i in group], read, [v for v in made if v in returned], size)


def _counted(eqns: Iterable[Eqn]) -> int:
    """The equations that compute something."""
    return sum(1 for e in eqns if weight(e))


def _space(e: Eqn, has_form: HasForm) -> int | None:
    """The number of elements of an equation that a cluster can hold, else None."""
    if e.effects or len(e.outputs) != 1:
        return None
    size, p = e.outputs[0].aval.size, e.primitive
    if size == 0:
        return None
    if p in _MOVES:
        return size
    if p.family != "elementwise" or not has_form(p, e.inputs[0].aval.dtype):
        return None
    return size


def _spaces(
    jaxpr: Jaxpr, readers: dict[Var, list[int]], has_form: HasForm, gathers: Callable[[Eqn], bool]
) -> list[int | None]:
    """The number of elements of each equation that a cluster can hold, gathers and what joins their indices included."""
    eqns = jaxpr.eqns
    spaces = [e.outputs[0].aval.size if gathers(e) else _space(e, has_form) for e in eqns]
    if any(s is not None for s in spaces):
        returned = {a for a in jaxpr.outvars if isinstance(a, Var)}
        for i, e in enumerate(eqns):
            if e.primitive is st.concatenate_p and e.outputs[0] not in returned:
                read = joined_for(e, [eqns[j] for j in readers.get(e.outputs[0], ())])
                spaces[i] = math.prod(e.outputs[0].aval.shape[:-1]) if read and all(map(gathers, read)) else None
    return spaces


def _joining(e: Eqn, space: int) -> list[Var]:
    """The values of an equation that join it with others: those of the space's size, and index vectors."""
    vectors = e.inputs[1:] if e.primitive is ix.gather_p else e.outputs if e.primitive is st.concatenate_p else ()
    near = [v for v in (*e.outputs, *e.inputs) if v.aval.size == space and v not in read_anywhere(e)]
    return [v for v in (*near, *vectors) if isinstance(v, Var)]


def _groups(eqns: Sequence[Eqn], spaces: Sequence[int | None], stage: Sequence[int]) -> list[list[int]]:
    """Equations of one space and stage that are joined by a value: one makes it, or all read it."""
    leader = list(range(len(eqns)))

    def find(i: int) -> int:
        while leader[i] != i:
            leader[i] = leader[leader[i]]
            i = leader[i]
        return i

    joined: dict[tuple[Var, int, int], int] = {}  # a value, a space, a stage: one of those that make or read it
    for i, e in enumerate(eqns):
        space = spaces[i]
        if space is None:
            continue
        for v in _joining(e, space):
            other = joined.setdefault((v, space, stage[i]), i)
            leader[find(i)] = find(other)
    groups: dict[int, list[int]] = {}
    for i, space in enumerate(spaces):
        if space is not None:
            groups.setdefault(find(i), []).append(i)
    return list(groups.values())


def _parts(eqns: Sequence[Eqn], group: list[int], readers: dict[Var, list[int]], returned: set[Var]) -> list[list[int]]:
    """A group cut into parts, in order, that are not too large for a kernel."""
    whole = sum(weight(eqns[i]) for i in group)
    if len(group) == 1 or (whole <= MOST_WEIGHT and _arrays(eqns, group, readers, returned) <= MOST_ARRAYS):
        return [group]
    total, cut = 0, 0
    while cut < len(group) - 1 and 2 * total <= whole:
        total += weight(eqns[group[cut]])
        cut += 1
    return [part for half in (group[:cut], group[cut:]) for part in _parts(eqns, half, readers, returned)]


def _arrays(eqns: Sequence[Eqn], group: list[int], readers: dict[Var, list[int]], returned: set[Var]) -> int:
    """Arrays that a group reads and writes."""
    inside = set(group)
    made = {v for i in group for v in eqns[i].outputs}
    read = {a for i in group for a in eqns[i].inputs if isinstance(a, Var) and a not in made}
    written = sum(1 for v in made if v in returned or any(j not in inside for j in readers.get(v, ())))
    return len(read) + written


def _without_loose(eqns: Sequence[Eqn], group: list[int], readers: dict[Var, list[int]]) -> list[int]:
    """A group without the equations that only move data for readers outside."""
    inside = set(group)
    for i in reversed(group):
        if eqns[i].primitive in (*_MOVES, st.concatenate_p) and not any(
            j in inside for j in readers.get(eqns[i].outputs[0], ())
        ):
            inside.discard(i)
    return sorted(inside)


def _is_constant(eqns: Sequence[Eqn], group: list[int]) -> bool:
    """Whether a group reads nothing. IREE 3.13 computes such dispatches ahead of time, and mixes up what several results are."""
    made = {v for i in group for v in eqns[i].outputs}
    return all(a in made for i in group for a in eqns[i].inputs if isinstance(a, Var))


def _worthwhile(eqns: Sequence[Eqn], size: int) -> bool:
    """Whether a kernel of equations on so many elements is better than the dispatches that IREE would form."""
    return _is_heavy(eqns) or (_counted(eqns) >= LEAST_EQNS and size <= SMALL)


def _is_heavy(eqns: Sequence[Eqn]) -> bool:
    """Whether a kernel of equations is better wherever they are."""
    return any(e.primitive is ix.gather_p for e in eqns) or sum(map(weight, eqns)) >= LEAST_WEIGHT


def _stands_alone(eqns: Sequence[Eqn], group: list[int], maker: dict[Var, int], size: int) -> bool:
    """Whether light equations on so many elements are dispatches of their own in each turn of a loop."""
    inside = set(group)
    makers = {maker[a] for i in group for a in eqns[i].inputs if isinstance(a, Var) and a in maker}
    return size >= LEAST_IN_LOOPS and not any(eqns[i].primitive in _READ_IN_PLACE for i in makers - inside)


def reason_against(
    jaxpr: Jaxpr, readers: dict[Var, list[int]], i: int, j: int, has_form: HasForm, least_gathered: int,
    large: int | None = None,
) -> str | None:  # fmt: skip
    """Why two equations are not in one elementwise cluster; None where they are in one."""
    eqns = jaxpr.eqns
    spaces = _spaces(jaxpr, readers, has_form, lambda e: is_gather_of_elements(e, least_gathered))
    for k in (i, j):
        if spaces[k] is None:
            e = eqns[k]
            what = (
                "has no form in kernels"
                if e.primitive.family == "elementwise"
                else f"is of the family {e.primitive.family}"
            )
            return f"{e.primitive.name} {what}"
    if spaces[i] != spaces[j]:
        return f"{eqns[i].primitive.name} computes {spaces[i]} elements, {eqns[j].primitive.name} {spaces[j]}"
    stage = stages(eqns, spaces, read_anywhere)
    if stage[i] != stage[j]:
        return "an equation of another kind or number of elements lies between them: one waits for it, the other comes before"
    group = next(g for g in _groups(eqns, spaces, stage) if i in g)
    if j not in group:
        return "no value is made by one and read by the other, or read by both"
    size = eqns[i].outputs[0].aval.size
    total, counted = sum(weight(eqns[k]) for k in group), _counted(eqns[k] for k in group)
    if total > MOST_WEIGHT:
        what = f"kernels of more than {MOST_WEIGHT} spill registers"
        return f"together with what joins them they are {total} operations an element; {what}"
    if not _worthwhile([eqns[k] for k in group], size):
        if large is not None and size >= large:
            maker = {v: k for k, e in enumerate(eqns) for v in e.outputs}
            against = _Program(eqns, maker, readers).reason_against(_without_loose(eqns, group, readers))
            if against is not None:
                return f"they are light, and {against}"
        return (
            f"IREE fuses them as well: {counted} equations of {total} operations an element are fewer than the {LEAST_WEIGHT} "
            f"operations from which a kernel is made (or {LEAST_EQNS} equations of at most {SMALL} elements)"
        )
    return f"a kernel of both would read and write more than {MOST_ARRAYS} arrays, or was cut in two for its size"


__all__ = ["HasForm", "elementwise_clusters", "reason_against"]
