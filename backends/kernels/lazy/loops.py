"""Loops and branches on lazy arrays: carried arrays are memory, carried scalars values.

A carried array is updated in place where its new elements depend on its old ones at their own places only, or where a
small part of it is written; otherwise two copies take turns: the body reads one and writes the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.jaxpr import Eqn, Jaxpr, Var
from quire.ir.primitives import control_flow as cf

from ..core.values import Value
from ..elements.memory import Memory
from . import cumulative as cumulative  # imported for its rules, as are
from . import rules as rules
from . import windows as windows
from .nodes import ZERO, Array, Ix, Node, Number, leaves, row
from .programs import Built, Program, carries, rule
from .schedule import branches, chosen

#: Elements between two copies of a large array.
APART = 80

Form = Literal["scalar", "same", "place", "turns"]


@dataclass(eq=False)
class Carry:
    """A carried value: what it is, how it is kept, and its memory."""

    shape: tuple[int, ...]
    dtype: DType
    form: Form = "turns"
    memory: Array | None = None

    @property
    def size(self) -> int:
        """Elements."""
        out = 1
        for n in self.shape:
            out *= n
        return out

    @property
    def apart(self) -> int:
        """Where the second of two copies begins: not a page further, or loads would wait for stores of the other."""
        return self.size + (APART if self.size >= 1024 else 0)

    def now(self, parity: Ix) -> Array:
        """The memory that an iteration reads."""
        assert self.memory is not None
        if self.form != "turns":
            return self.memory
        return Array(self.shape, self.dtype, self.memory.memory, self.memory.strides, parity * self.apart, self)

    def next(self, parity: Ix) -> Array:
        """The memory that an iteration writes."""
        assert self.memory is not None
        base = parity * -self.apart + self.apart
        return Array(self.shape, self.dtype, self.memory.memory, self.memory.strides, base, self)


Body = Callable[[Sequence[Node], Ix, Mapping[int, Array]], Sequence[Node]]
"""``body(carry, i, wanted)``: the next carry and the rows of ys of iteration i; `wanted`: memory of some carries."""


def _decide(program: Program, carries_: Sequence[Carry], outs: Sequence[Node]) -> None:
    """How each carried array is kept, from what the body makes of it (`outs`: next carries, then rows of ys)."""
    reads: list[set[tuple[object, bool]]] = [set(leaves(x)) for x in outs]
    for k, (c, x) in enumerate(zip(carries_, outs)):
        if not c.shape:
            c.form = "scalar"
        elif isinstance(x, Array) and x.owner is c and x.shape == c.shape and x.base == ZERO and x.contiguous:
            c.form = "same"
        elif isinstance(x, Built):
            root: Node | None = x
            small, size = True, 0
            while isinstance(root, Built):
                size += sum(r.size for r in root.reads)
                small = small and (root.source is not None)
                root = root.source
            own = isinstance(root, Array) and root.owner is c and root.contiguous and root.shape == c.shape
            dependent = any(carries(r) for r in _reads(x))
            c.form = "place" if own and small and (not dependent or 4 * size <= c.size) else "turns"
        else:
            # Its nest is emitted after those of other shapes, and together with those of its own.
            same = all(
                identical and outs[j].shape == c.shape and not isinstance(outs[j], Built)
                for j in range(len(outs))
                for owner, identical in reads[j]
                if owner is c and not (j < len(carries_) and isinstance(outs[j], Built) and j != k)
            )
            built_reads = any(
                owner is c for j, o in enumerate(outs) if isinstance(o, Built) for owner, _ in reads[j] if j != k
            )
            c.form = "place" if same and not built_reads else "turns"


def _reads(x: Node) -> list[Node]:
    out: list[Node] = []
    while isinstance(x, Built):
        out += x.reads
        if x.source is None:
            break
        x = x.source
    return out


def _finish(
    program: Program, carries_: Sequence[Carry], outs: Sequence[Node], rows: Sequence[Array], parity: Ix
) -> None:
    """Write the next carries and the rows of ys."""
    pending: list[tuple[Node, Array, bool]] = []
    updates: list[tuple[Carry, Built]] = []
    for c, x in zip(carries_, outs):
        if c.form == "place":
            if isinstance(x, Built):
                updates.append((c, _detached(program, x)))
            else:
                pending.append((x, c.now(parity), True))
        elif c.form == "turns":
            pending.append((x, c.next(parity), False))
    pending += [(x, row, False) for x, row in zip(outs[len(carries_) :], rows)]
    # First what is written region by region, and what reads memory that others overwrite.
    for x, to, _ in pending:
        if isinstance(x, Built):
            program.write(x, to)
    lazy = [(x, to, own) for x, to, own in pending if not isinstance(x, Built)]
    shapes = list(dict.fromkeys(x.shape for x, _, _ in lazy))
    shapes.sort(key=lambda s: any(own for x, _, own in lazy if x.shape == s))
    for shape in shapes:
        program.nests.store([(x, to) for x, to, _ in lazy if x.shape == shape])
    for c, x in updates:
        _write_in_place(program, x, c.now(parity))


def _detached(program: Program, x: Built) -> Built:
    """An update whose parts do not read carried arrays any more."""
    source = _detached(program, x.source) if isinstance(x.source, Built) else x.source
    reads = tuple(program.in_memory(r) if carries(r) and not _is_own_copy(r) else r for r in x.reads)
    reads = tuple(_copied(program, r) if isinstance(r, Array) and r.owner is not None else r for r in reads)
    return Built(x.shape, x.dtype, source, reads, x.fill, x.region)


def _is_own_copy(x: Node) -> bool:
    return isinstance(x, Array) and x.owner is None


def _copied(program: Program, x: Array) -> Array:
    to = program.temp(x.shape, x.dtype)
    program.write(x, to)
    return to


def _write_in_place(program: Program, x: Node, to: Array) -> None:
    if isinstance(x, Built):
        assert x.source is not None
        _write_in_place(program, x.source, to)
        x.fill(to, x.reads)


@dataclass
class Frame:
    """A loop that is open: its carries, and where rows of ys go."""

    program: Program
    carries: list[Carry]
    rows: Callable[[Ix], Sequence[Array]]
    body: Body

    def prepare(self, init: Sequence[Node], memory: Sequence[Array | None]) -> None:
        """Find out how arrays are kept, get memory and put the initial values there."""
        program = self.program
        with program.b.discarded():
            for c in self.carries:
                if c.shape:
                    c.memory = program.temp(c.shape, c.dtype, c)
                    c.form = "place"
            work = program.nests.work
            placeholders = [self._placeholder(c) for c in self.carries]
            outs = self.body(placeholders, Ix.of(Value(program.b, "%none", "index")), {})
            program.nests.work = work
            _decide(program, self.carries, outs)
        for c, x, given in zip(self.carries, init, memory):
            if not c.shape:
                continue
            if c.form == "turns":
                c.memory = program.temp(c.shape, c.dtype, c, numbers=c.size + c.apart)
                program.write(x, Array(c.shape, c.dtype, c.memory.memory, c.memory.strides))
            elif given is not None:
                c.memory = Array(c.shape, c.dtype, given.memory, given.strides, given.base, c)
                program.write(x, given)
            else:
                c.memory = program.temp(c.shape, c.dtype, c)
                program.write(x, Array(c.shape, c.dtype, c.memory.memory, c.memory.strides))

    def _placeholder(self, c: Carry) -> Node:
        if c.shape:
            assert c.memory is not None
            return c.memory
        e = self.program.elements
        parts = [Value(self.program.b, "%none", v.type) for v in e.parts(0, c.dtype)]
        return Number((), c.dtype, e.joined(parts))

    @property
    def turning(self) -> bool:
        """Whether two copies of something take turns."""
        return any(c.form == "turns" for c in self.carries)

    def initial(self, init: Sequence[Node]) -> list[Value]:
        """The values of carried scalars before the first iteration, and the parity."""
        e, out = self.program.elements, list[Value]()
        for c, x in zip(self.carries, init):
            if c.form == "scalar":
                out += e.parts(self.program.element(x), c.dtype)
        return [*out, self.program.b.index(0)] if self.turning else out

    def opened(self, values: Sequence[Value]) -> tuple[list[Node], Ix]:
        """The carries as nodes, from the values of an iteration, and the parity."""
        parity = Ix.of(values[-1]) if self.turning else ZERO
        nodes: list[Node] = []
        at = 0
        for c in self.carries:
            if c.form == "scalar":
                n = Memory.numbers(c.dtype)
                nodes.append(Number((), c.dtype, self.program.elements.joined(values[at : at + n])))
                at += n
            else:
                nodes.append(c.now(parity))
        return nodes, parity

    def step(self, values: Sequence[Value], i: Ix) -> list[Value]:
        """One iteration; the values of the next."""
        program, e = self.program, self.program.elements
        nodes, parity = self.opened(values)
        wanted = {k: c.next(parity) for k, c in enumerate(self.carries) if c.form == "turns"}
        outs = self.body(nodes, i, wanted)
        scalars = [
            v for c, x in zip(self.carries, outs) if c.form == "scalar" for v in e.parts(program.element(x), c.dtype)
        ]
        _finish(program, self.carries, outs, self.rows(i), parity)
        if self.turning:
            scalars.append(program.b.index(1) - values[-1])
        return scalars


def _wanted(jaxpr: Jaxpr, memory: Mapping[int, Array]) -> dict[Var, Array]:
    out: dict[Var, Array] = {}
    for k, to in memory.items():
        a = jaxpr.outvars[k]
        if isinstance(a, Var) and a not in jaxpr.invars:
            out.setdefault(a, Array(to.shape, to.dtype, to.memory, to.strides, to.base))
    return out


def loop(
    program: Program, eqn: Eqn, args: Sequence[Node], results: Sequence[Array | None], ys: Sequence[Array]
) -> list[Node]:
    """A loop equation: its final carry. `results`: memory that carried arrays may be kept in; `ys`: where rows go."""
    p, b, nests = eqn.params, program.b, program.nests
    trips = nests.trips
    if eqn.primitive is cf.scan_p:
        n, length = p["num_consts"] + p["num_carry"], p["length"]
        consts = [program.steady(program.lazy(x)) for x in args[: p["num_consts"]]]
        init, xs = args[p["num_consts"] : n], [program.lazy(x) for x in args[n:]]
        jaxpr = p["jaxpr"].jaxpr

        def body(carry: Sequence[Node], i: Ix, wanted: Mapping[int, Array]) -> Sequence[Node]:
            rows_of_xs = [program.computed(row(x, i)) for x in xs]
            return program.run(jaxpr, [*consts, *carry, *rows_of_xs], _wanted(jaxpr, wanted))

        def rows(i: Ix) -> list[Array]:
            return [Array(y.shape[1:], y.dtype, y.memory, y.strides[1:], y.base + i * y.strides[0]) for y in ys]

        frame = Frame(program, [Carry(x.shape, x.dtype) for x in init], rows, body)
        frame.prepare(init, results)
        nests.trips = trips * length
        with b.for_(0, length, 1, frame.initial(init)) as opened:
            i = b.index(length - 1) - opened.index if p["reverse"] else opened.index
            values = frame.step(opened.carried, Ix.of(i))
            if values:
                opened.yield_(*values)
        nests.trips = trips
        return frame.opened(opened.results)[0]
    n, m = p["cond_nconsts"], p["body_nconsts"]
    test_consts, consts = ([program.steady(program.lazy(x)) for x in part] for part in (args[:n], args[n : n + m]))
    init = args[n + m :]
    test, jaxpr = p["cond_jaxpr"].jaxpr, p["body_jaxpr"].jaxpr
    most = p.get("max_steps")

    def while_body(carry: Sequence[Node], i: Ix, wanted: Mapping[int, Array]) -> Sequence[Node]:
        return program.run(jaxpr, [*consts, *carry], _wanted(jaxpr, wanted))

    frame = Frame(program, [Carry(x.shape, x.dtype) for x in init], lambda i: [], while_body)
    frame.prepare(init, results)
    nests.trips = trips * 32
    with b.while_([b.index(0), *frame.initial(init)]) as opened:
        count, *values = opened.before
        (going,) = program.run(test, [*test_consts, *frame.opened(values)[0]])
        condition = program.elements.lift(program.element(going), dtypes.bool_)
        assert isinstance(condition, Value)
        if most is not None:
            condition = condition & b.cmp("slt", count, most)
        opened.condition(condition, *opened.before)
        count, *values = opened.after
        opened.yield_(count + 1, *frame.step(values, Ix.of(count)))
    nests.trips = trips
    return frame.opened(opened.results[1:])[0]


@rule(cf.scan_p, cf.while_p, cf.bounded_while_p)
def nested_loop(program: Program, eqn: Eqn, *args: Node) -> list[Node]:
    """A loop inside a program: what it carries is in memory of the program's own."""
    n = eqn.params["num_carry"] if eqn.primitive is cf.scan_p else len(eqn.outputs)
    ys = [program.wanted(v) for v in eqn.outputs[n:]]
    carry = loop(program, eqn, args, [None] * n, ys)
    return [*(_forgotten(x) for x in carry), *ys]


def _forgotten(x: Node) -> Node:
    """The memory of a loop that has ended is an array like others."""
    return Array(x.shape, x.dtype, x.memory, x.strides, x.base) if isinstance(x, Array) else x


@rule(cf.cond_p)
def cond(program: Program, eqn: Eqn, index: Node, *args: Node) -> list[Node]:
    """The branch that a scalar chooses: as ``scf.if``, or the one branch where the scalar is a number."""
    args = tuple(program.lazy(x) for x in args)
    jaxprs, which = branches(program, eqn, index)
    if which is None:
        return program.run(jaxprs[0], args)
    e = program.elements
    arrays = {k: program.temp(v.aval.shape, v.aval.dtype) for k, v in enumerate(eqn.outputs) if v.aval.shape}
    scalars = [k for k, v in enumerate(eqn.outputs) if not v.aval.shape]
    types = [v.type for k in scalars for v in e.parts(0, eqn.outputs[k].aval.dtype)]

    def branch(k: int) -> list[Value]:
        out = program.run(jaxprs[k], args, _wanted(jaxprs[k], arrays))
        for i, to in arrays.items():
            program.write(out[i], to)
        return [v for i in scalars for v in e.parts(program.element(out[i]), eqn.outputs[i].aval.dtype)]

    values = chosen(program.b, which, types, len(jaxprs) - 1, branch)
    out: list[Node] = []
    for k, v in enumerate(eqn.outputs):
        if k in arrays:
            out.append(arrays[k])
        else:
            n = Memory.numbers(v.aval.dtype)
            out.append(Number((), v.aval.dtype, e.joined(values[:n])))
            values = values[n:]
    return out
