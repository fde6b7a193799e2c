"""Whole loops as one kernel: a `scan`, `while` or `bounded_while` equation, with its state in registers.

Two mappings, tried in this order (see :func:`plans`): lanes over some dimensions of the state, spread over
workgroups with the time loop inside where lanes do not depend on each other, or all lanes in one workgroup; or no
lanes, every element a scalar.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, all_eqns, nested_jaxprs
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import control_flow as cf

from ..core.builder import KernelBuilder
from ..core.errors import NoKernel, TooManyArrays
from ..core.kernel import Kernel, Spec
from ..core.memoized import memoized
from ..core.packing import Packing, packing_of
from ..core.shapes import row_major, shorter
from ..core.target import KernelTarget, workgroups
from ..core.values import Value
from ..elements.memory import Memory
from ..elements.operations import Elements, Expand
from ..lazy.loops import loop as array_loop
from ..lazy.nodes import Array, Ix, Node
from ..lazy.programs import Program
from ..lazy.schedule import number
from ..linalg import rules as rules  # imported for its rules
from ..registers.interpreter import Chunk, Interpreter, Space, lane_of
from ..registers.loops import scan_into

LOOPS = (cf.scan_p, cf.while_p, cf.bounded_while_p)

#: The most values that go from iteration to iteration in one workgroup (beyond some 12 they are in its stack memory).
MOST_CARRIED = 32
#: The same for lanes that are spread: what is not in registers is slow there.
MOST_DISTRIBUTED = 24
#: What one processor does of the work that nests count, vectors a second.
VECTORS_PER_SECOND = 2e9
#: The longest step of a loop that is left to one of two processors; less where there are more.
STEP_SECONDS = 800e-6
#: The least work of a workgroup, in operations of a step of the loop.
GROUP_WORK = 1 << 17
#: Arrays from so many bytes on are updated in the memory of their initial value.
TIED_BYTES = 4096
#: The largest array of a step that is made of scalars, and of vectors of all lanes, where it could be in memory.
LARGEST_OF_SCALARS, LARGEST_IN_LANES = 32, 8
#: The most lanes that one workgroup has altogether.
MOST_LANES = 512


@dataclass(frozen=True)
class Plan:
    """How a loop's arrays are cut: the dimensions that are lanes (None: none), and whether workgroups share them."""

    lanes: tuple[int, ...] | None
    distributed: bool = False


def carried_atoms(eqn: Eqn) -> tuple[Atom, ...]:
    """The initial values of a loop's carried arrays."""
    p = eqn.params
    if eqn.primitive is cf.scan_p:
        return eqn.inputs[p["num_consts"] : p["num_consts"] + p["num_carry"]]
    return eqn.inputs[p["cond_nconsts"] + p["body_nconsts"] :]


def carried(eqn: Eqn) -> list[ShapedArray]:
    """The types of a loop's carried arrays."""
    return [a.aval for a in carried_atoms(eqn)]


def plans(eqn: Eqn, target: KernelTarget) -> Iterator[Plan]:
    """The ways to cut a loop, the best first."""
    avals = [*carried(eqn), *(v.aval for v in eqn.outputs)]
    if eqn.primitive is cf.scan_p:
        avals = [
            *carried(eqn),
            *(v.aval.update(shape=v.aval.shape[1:]) for v in eqn.outputs[eqn.params["num_carry"] :]),
        ]
    total = sum(a.size for a in carried(eqn))
    least = target.lanes(32)
    if total <= 12:
        yield Plan(None)
    shapes = sorted({a.shape for a in avals if a.shape}, key=lambda s: (-math.prod(s), s))
    tried: set[tuple[int, ...]] = set()
    for shape in shapes:
        ends = [shape, *sorted({(n,) for n in shape}, reverse=True), *(shape[:k] for k in range(2, len(shape)))]
        for lanes in ends:
            if lanes in tried or math.prod(lanes) < least:
                continue
            tried.add(lanes)
            yield Plan(lanes, True)
            if math.prod(lanes) <= MOST_LANES:
                yield Plan(lanes)
    if 12 < total <= MOST_CARRIED:
        yield Plan(None)


def loop_kernel(
    eqn: Eqn, target: KernelTarget, expand: Expand, free: frozenset[Atom] = frozenset(), in_memory: bool = True
) -> Kernel:
    """The kernel of a loop equation.

    Its operands are the equation's that are no literals, in their order; its results the equation's. Carried arrays
    whose initial values are in `free` are updated in their memory: nobody else reads these. Raises
    :class:`NoKernel` with the reason where there is no kernel; without `in_memory`, also where the state does not
    fit into registers.
    """
    atoms = list(dict.fromkeys(a for a in eqn.inputs if isinstance(a, Var)))
    written = frozenset(i for i, a in enumerate(atoms) if a in free)
    return _loop_kernel(Jaxpr((), atoms, eqn.outputs, [eqn]), target, expand, written, in_memory)


@memoized(64)
def _loop_kernel(
    jaxpr: Jaxpr, target: KernelTarget, expand: Expand, free_inputs: frozenset[int], in_memory: bool
) -> Kernel:
    """The kernel of a jaxpr's only equation."""
    (eqn,) = jaxpr.eqns
    free = frozenset[Atom](jaxpr.invars[i] for i in free_inputs)
    for a in (*eqn.inputs, *eqn.outputs):
        if a.aval.size == 0:
            raise NoKernel("an array has no elements")
        if a.aval.dtype not in dtypes.SHORT:
            raise NoKernel(f"dtype {a.aval.dtype}")
    why = "its state has too many elements for registers"
    if target.kind == "gpu":
        return _by_threads(eqn, target, expand, why)
    first, last = list[Plan](), list[Plan]()
    for plan in plans(eqn, target):
        (last if in_memory and _is_wide(eqn, plan) else first).append(plan)
    for plan in first:
        try:
            return _build(eqn, plan, target, expand, free)
        except NoKernel as reason:
            why = str(reason)
    if not in_memory:
        raise NoKernel(why)
    try:
        return _in_memory(eqn, target, expand, "a step has larger arrays than registers are good for" if last else why)
    except NoKernel:
        for plan in last:
            with contextlib.suppress(NoKernel):
                return _build(eqn, plan, target, expand, free)
        raise


def _by_threads(eqn: Eqn, target: KernelTarget, expand: Expand, why: str) -> Kernel:
    """The kernel for a GPU: a thread for each lane, or one thread for a state of a few numbers."""
    for plan in plans(eqn, target):
        if plan.lanes is None or plan.distributed:
            try:
                return _build(eqn, plan, target, expand, frozenset())
            except NoKernel as reason:
                why = str(reason)
    raise NoKernel(why)


def _is_wide(eqn: Eqn, plan: Plan) -> bool:
    """Whether a step computes larger arrays than what is written out in registers is good for.

    There every scalar (or vector, of lanes) is an instruction of its own; nests over memory take vectors along the best
    dimension and reduce along the others without shuffles. Lanes that workgroups share are independent, and stay.
    """
    if plan.distributed:
        return False
    lanes = math.prod(plan.lanes) if plan.lanes else 1
    most = LARGEST_IN_LANES if plan.lanes else LARGEST_OF_SCALARS
    bodies = [b.jaxpr if isinstance(b, ClosedJaxpr) else b for b in nested_jaxprs(eqn.params)]
    return any(_elements(e) > most * lanes for body in bodies for e in all_eqns(body))


def _elements(eqn: Eqn) -> int:
    """The elements of an equation's largest result, or the products of which it is made."""
    largest = max((v.aval.size for v in eqn.outputs), default=0)
    if eqn.primitive is not ct.dot_general_p:
        return largest
    ((contracted, _), _), shape = eqn.params["dimension_numbers"], eqn.inputs[0].aval.shape
    return largest * math.prod(shape[d] for d in contracted)


def _in_memory(eqn: Eqn, target: KernelTarget, expand: Expand, why: str) -> Kernel:
    """The kernel of a loop whose state is in memory. `why`: what kept it from being in registers."""
    crowded = False
    try:
        kernel, places = _program(eqn, target, expand, why, {})
    except TooManyArrays:  # what a step computes and the stack does not hold is in arrays, too
        crowded = True
        kernel, places = _program(eqn, target, expand, why, {}, crowded)
    return kernel if not places else _program(eqn, target, expand, why, places, crowded)[0]


def _program(
    eqn: Eqn, target: KernelTarget, expand: Expand, why: str, tied: dict[int, int], crowded: bool = False
) -> tuple[Kernel, dict[int, int]]:
    """The kernel whose results of `tied` are operands, and those that can be: large ones that are updated in place.

    Where it is `crowded`, what it keeps for itself lies in one array.
    """
    atoms = list(dict.fromkeys(a for a in eqn.inputs if not isinstance(a, Literal)))
    packing = packing_of([a.aval for a in atoms], [v.aval for v in eqn.outputs], int(crowded))
    b = _builder(eqn, atoms, target, tied, packing)
    program = Program(Elements(b, expand), crowded)
    given, results = (
        _arrays(program.elements, vs, packing, late) for vs, late in ((atoms, False), (eqn.outputs, True))
    )
    args = [number(a) if isinstance(a, Literal) else program.computed(given[atoms.index(a)]) for a in eqn.inputs]
    init = carried_atoms(eqn)
    out = array_loop(program, eqn, args, results[: len(init)], results[len(init) :])
    for x, to in zip(out, results):
        program.write(x, to)
    steps = eqn.params.get("length", 32)
    seconds = program.nests.work / max(1, steps) / VECTORS_PER_SECOND
    if seconds > STEP_SECONDS / target.workers:
        raise NoKernel(f"a step has work for all processors (some {seconds * 1e6:.0f} us for one)")
    places = {
        k: atoms.index(a)
        for k, (a, x) in enumerate(zip(init, out))
        if isinstance(x, Array) and x.memory.buffer is results[k].memory.buffer and not isinstance(a, Literal)
        and eqn.inputs.count(a) == 1 and a.aval.nbytes >= TIED_BYTES
    }  # fmt: skip
    how = ", updated in place" if tied else ""
    kernel = b.build((1,), f"{_name(eqn)}: one kernel, its state in memory{how} ({why})")
    return (kernel, places) if packing is None else (replace(kernel, packing=packing), {})


def _arrays(e: Elements, vs: Sequence[Any], packing: Packing | None, late: bool) -> list[Array]:
    """The operands, or the results, each in an array of its own or within one of several."""
    if packing is None:
        return [Array.of(e, i, v.aval, result=late) for i, v in enumerate(vs)]
    own = [Memory.of(e, i, aval, result=late) for i, aval in enumerate(packing.avals(results=late))]
    return [
        Array(v.aval.shape, v.aval.dtype, own[number], row_major(v.aval.shape), Ix.of(at))
        for v, (number, at) in zip(vs, packing.places(results=late), strict=True)
    ]


def _builder(
    eqn: Eqn, atoms: Sequence[Any], target: KernelTarget, tied: dict[int, int] | None = None,
    packing: Packing | None = None,
) -> KernelBuilder:  # fmt: skip
    operands, results = [a.aval for a in atoms], [v.aval for v in eqn.outputs]
    if packing is not None:
        operands, results = (packing.avals(results=late) for late in (False, True))
    inputs, outputs = ([Spec.of(a.shape, a.dtype) for a in avals] for avals in (operands, results))
    return KernelBuilder(eqn.primitive.name, inputs, outputs, target, tied=tied)


def chunks_of(size: int, lanes: int) -> list[Chunk]:
    """All of `size` lanes as vectors, the last ones shorter."""
    return [Chunk(at, n if n > 1 else 0) for at, n in shorter(0, size, lanes)]


def _tied(eqn: Eqn, plan: Plan, unique: Sequence[Atom], free: frozenset[Atom]) -> dict[int, int]:
    """The results that take the memory of their initial values: a workgroup reads and writes its own lanes only."""
    if not plan.distributed:
        return {}
    return {
        k: unique.index(a)
        for k, a in enumerate(carried_atoms(eqn))
        if a in free and eqn.inputs.count(a) == 1 and a.aval.nbytes >= TIED_BYTES and lane_of(a.aval.shape, plan.lanes)
    }


def _build(eqn: Eqn, plan: Plan, target: KernelTarget, expand: Expand, free: frozenset[Atom]) -> Kernel:
    unique = list(dict.fromkeys(a for a in eqn.inputs if not isinstance(a, Literal)))
    tied = _tied(eqn, plan, unique, free)
    b = _builder(eqn, unique, target, tied)
    elements = Elements(b, expand)
    lanes = target.lanes(32)
    inner = sum(math.prod(a.shape) // math.prod(plan.lanes) if lane_of(a.shape, plan.lanes) else a.size
                for a in carried(eqn)) if plan.lanes else sum(a.size for a in carried(eqn))  # fmt: skip
    if plan.lanes is None:
        if inner > MOST_CARRIED:
            raise NoKernel("its state has too many elements for registers")
        with b.if_(b.cmp("eq", b.thread_id(), 0)) if target.kind == "gpu" else contextlib.nullcontext():
            _emit(eqn, unique, Interpreter(elements, None), None)
        return b.build((1,), f"{_name(eqn)}: one kernel, its state of {inner} numbers in registers")
    size = math.prod(plan.lanes)
    if not plan.distributed:
        chunks = chunks_of(size, lanes)
        if inner * len(chunks) > MOST_CARRIED:
            raise NoKernel("its state has too many elements for registers")
        _emit(eqn, unique, Interpreter(elements, Space(plan.lanes, tuple(chunks))), plan.lanes)
        return b.build((1,), f"{_name(eqn)}: one kernel, its state of {inner * len(chunks)} vectors in registers")
    if inner > MOST_DISTRIBUTED:
        raise NoKernel("its state has too many elements for registers")
    if target.kind == "gpu":
        with b.spread_threads(size) as lane:
            _emit(eqn, unique, Interpreter(elements, Space(plan.lanes, (Chunk(lane, 0),), True)), plan.lanes)
        reason = f"{_name(eqn)}: one kernel, a thread for each of {size} independent lanes, state in registers"
        return b.build((b.thread_groups(size),), reason)
    vectors = max(1, min(4, 14 // (inner + 1), size // lanes))
    each = vectors * lanes
    # The last piece is moved back inside: some lanes are computed twice, none needs a mask. Not in place, where the
    # second time would read what the first has written.
    pieces = size // each if tied else -(-size // each)
    groups = target.groups(size * _work(eqn), GROUP_WORK, pieces)

    def emit(chunks: Sequence[Chunk]) -> None:
        _emit(eqn, unique, Interpreter(elements, Space(plan.lanes or (), tuple(chunks), True)), plan.lanes)

    with b.distributed(pieces, groups) as piece:
        start: Value | int = 0
        if pieces > 1:
            start = piece * each if tied else b.smin(piece * each, b.index(size - each))
        emit([Chunk(start + k * lanes, lanes) for k in range(vectors)])
    if size > pieces * each:
        rest = [Chunk(pieces * each + c.start, c.width) for c in chunks_of(size - pieces * each, lanes)]
        with b.if_(b.cmp("eq", b.workgroup_id(), 0)):
            emit(rest)
    where = workgroups(groups)
    if tied:
        where += ", updated in place"
    return b.build((groups,), f"{_name(eqn)}: one kernel, {size} independent lanes on {where}, state in registers")


def _name(eqn: Eqn) -> str:
    steps = eqn.params.get("length")
    return f"{eqn.primitive.name} of {steps} steps" if steps is not None else eqn.primitive.name


def _work(eqn: Eqn) -> int:
    """Operations of one lane, roughly."""
    body = eqn.params["jaxpr"] if eqn.primitive is cf.scan_p else eqn.params["body_jaxpr"]
    return eqn.params.get("length", 32) * max(1, len(body.jaxpr.eqns))


def _emit(eqn: Eqn, operands: Sequence[Any], it: Interpreter, lanes: tuple[int, ...] | None) -> None:
    p = eqn.params

    def stored(aval: ShapedArray, number: int, result: bool, row: bool) -> Array:
        lane = lane_of(aval.shape[1:] if row else aval.shape, lanes)
        lane = (lane[0] + 1, lane[1]) if lane is not None and row else lane
        return Array.of(it.elements, number, aval, result=result, lane=lane)

    is_scan = eqn.primitive is cf.scan_p
    first_row = p["num_consts"] + p["num_carry"] if is_scan else len(eqn.inputs)
    args = [
        number(a) if isinstance(a, Literal) else stored(a.aval, operands.index(a), False, k >= first_row)
        for k, a in enumerate(eqn.inputs)
    ]
    results = [stored(v.aval, i, True, is_scan and i >= p["num_carry"]) for i, v in enumerate(eqn.outputs)]
    if is_scan:
        out: Sequence[Node] = scan_into(it, eqn, args, results[p["num_carry"] :])
    else:
        out = it.equation(eqn, args)
    for x, to in zip(out, results):
        it.store(x, to)
