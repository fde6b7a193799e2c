"""Plans written into IREE's host functions, as commands on buffers, in place of the operations on values.

What is done between two points at which the host waits is one `stream.cmd.execute`; they follow one another by timepoints.
Loops and branches stay, without what they carried: that has places.

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import mlir_c
from host_programs import HostFunction, HostTypes
from plan.plan import BOTH, FLAT, READ, STAGED, Buffer, Plan, Range, Step, apart, walk

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes longer to import than all else here
    from collections.abc import Sequence

_ACCESS = {READ: b"1 : i32", BOTH: b"3 : i32"}
_LOOPS = frozenset((b"scf.for", b"scf.while"))


class Writer:
    """Writes a plan into a function."""

    def __init__(self, mlir: mlir_c.Mlir, types: HostTypes, taken: HostFunction, plan: Plan) -> None:
        self.mlir, self.types, self.taken, self.plan = mlir, types, taken, plan
        self.function, self.block = taken.function, taken.block
        self.first = mlir.mlirBlockGetFirstOperation(self.block)
        self.location = mlir.mlirOperationGetLocation(self.function)
        self.numbers: dict[int, int] = {}
        self.memory: dict[Buffer, tuple[int, int, int]] = {}
        """Each buffer's resource, its size, and its type."""
        self.base: dict[Buffer, int] = {}
        """Where in its resource a buffer is that a loop exchanges: a value of the host's."""
        self.replaced: dict[int, int] = {}
        """Values of the host's that other operations give now."""
        self.timepoint = 0
        """When what has been written so far is done; 0: at once."""
        self.affinity = taken.affinity
        self.staged: dict[Buffer, int] = {}
        self.pairs: list[tuple[int, int]] = []
        """The memory of exchanged buffers, and its size."""
        self.here = 0
        """The operation before which commands are being written."""
        self.staging = self.transient = self.top = 0
        self.once = mlir.name(self.function) == b"util.initializer"

    def write(self) -> None:
        """Replace the function's operations on resources by the plan's steps."""
        # Before all that is written come the indices, which go before the first of them.
        zero = self.mlir.mlirIntegerAttrGet(self.types.index, 0)
        self.top = self.create(b"arith.constant", [], [self.types.index], {b"value": zero}, before=self.first)
        self.numbers[0] = self.mlir.mlirOperationGetResult(self.top, 0)
        for buffer in self.plan.buffers:
            self.bring(buffer)
        self.steps(self.block, self.plan.steps, top=True)
        self.erase()

    # -- values

    def number(self, n: int) -> int:
        """An index."""
        found = self.numbers.get(n)
        if found is None:
            attribute = self.mlir.mlirIntegerAttrGet(self.types.index, n)
            op = self.create(b"arith.constant", [], [self.types.index], {b"value": attribute}, before=self.top)
            found = self.numbers[n] = self.mlir.mlirOperationGetResult(op, 0)
        return found

    def create(
        self, name: bytes, operands: list[int], kinds: list[int], attributes: dict[bytes, int | None], *,
        before: int = 0, last_in: int = 0, location: int = 0, regions: list[int] | None = None,
    ) -> int:  # fmt: skip
        """Make an operation before another one, or as the last one of a block; returns it."""
        return self.mlir.create(
            name, operands, kinds, attributes, before=before, last_in=last_in, location=location or self.location,
            regions=regions,
        )  # fmt: skip

    # -- buffers

    def bring(self, buffer: Buffer) -> None:
        """The resource of an argument or a constant."""
        mlir, op = self.mlir, buffer.op
        if buffer.kind not in ("argument", "constant") or op is None or op.late:
            return
        resource = mlir.mlirOperationGetResult(op.handle, 0)
        kind = self.types.resource[b"external" if buffer.kind == "argument" else b"constant"]
        name = mlir.name(op.handle)
        if name == b"stream.tensor.import":
            mlir.mlirOperationMoveBefore(op.handle, self.first)
            size = mlir.mlirOperationGetNumOperands(op.handle) - 1
            mlir.mlirOperationSetOperand(op.handle, size, self.number(buffer.size))
        elif name == b"util.global.load":
            mlir.mlirOperationMoveBefore(op.handle, self.first)
            new = self.create(
                b"util.global.load", [], [kind],
                {b"global": mlir.attribute(op.handle, b"global"), b"is_immutable": mlir.attribute(op.handle, b"is_immutable")},
                before=self.first,
            )  # fmt: skip
            resource = mlir.mlirOperationGetResult(new, 0)
        else:
            value = mlir.attribute(op.handle, b"value")
            new = self.create(
                b"stream.resource.constants", [self.number(buffer.size)], [kind, self.types.timepoint],
                {b"affinity": self.affinity, b"values": mlir.mlirArrayAttrGet(self.types.context, 1, _pointer(value))},
                before=self.first,
            )  # fmt: skip
            resource = mlir.mlirOperationGetResult(new, 0)
            self.join(mlir.mlirOperationGetResult(new, 1), self.first)
        self.memory[buffer] = (resource, self.number(buffer.size), kind)

    def join(self, timepoint: int, before: int) -> None:
        """Wait for this too."""
        if self.timepoint:
            op = self.create(
                b"stream.timepoint.join", [self.timepoint, timepoint], [self.types.timepoint], {}, before=before
            )
            timepoint = self.mlir.mlirOperationGetResult(op, 0)
        self.timepoint = timepoint

    def allocate(self, place: int) -> None:
        """The results' memory, the transient block, and the scalars that the host reads, before an operation.

        Results come first: they live on, and where one lies behind the transient block in IREE's pool, the next call finds
        no hole of the block's size (it looks for one that is a little larger), and the pool takes as much again.
        """
        for step in self.plan.steps:
            if step.kind == "new":
                self.write_new(step, place)
        for buffer in self.plan.buffers:
            if buffer.kind == "staging":
                self.staged[buffer] = STAGED * len(self.staged)
        transient = next(b for b in self.plan.buffers if b.kind == "transient")
        if transient.size:
            self.transient = self.alloca(transient, self.kind_of(transient), transient.size, place)
        for step in walk(self.plan.steps):
            for one, other in step.exchanged:
                kind = b"external" if b"external" in map(self.kind_of, (one, other)) else b"transient"
                resource = self.alloca(one, kind, 2 * apart(one), place)
                self.memory[other] = self.memory[one]
                self.pairs.append((resource, self.memory[one][1]))
                self.base[one], self.base[other] = self.number(0), self.number(apart(one))
        if self.staged:
            size = STAGED * len(self.staged)
            buffers = list(self.staged)
            self.staging = self.alloca(buffers[0], b"staging", size, place)
            for buffer in buffers[1:]:
                self.memory[buffer] = self.memory[buffers[0]]

    def kind_of(self, buffer: Buffer) -> bytes:
        """The kind of resource that a block of the program's own is: what a function of the host's is lent it must reach."""
        calls = (step for step in walk(self.plan.steps) if step.kind == "call")
        lent = any(place.buffer is buffer for step in calls for place in step.ranges)
        return b"external" if lent else b"transient"

    def alloca(self, buffer: Buffer, kind: bytes, size: int, before: int) -> int:
        """A buffer's memory."""
        types = self.types
        op = self.create(
            b"stream.resource.alloca", [self.number(size)], [types.resource[kind], types.timepoint],
            {b"affinity": self.affinity}, before=before,
        )  # fmt: skip
        resource = self.mlir.mlirOperationGetResult(op, 0)
        self.memory[buffer] = (resource, self.number(size), types.resource[kind])
        self.join(self.mlir.mlirOperationGetResult(op, 1), before)
        return resource

    # -- steps

    def steps(self, block: int, steps: Sequence[Step], top: bool = False) -> None:
        """Write the steps of one region: before each operation of the host that needs them.

        A scalar that the host reads is waited for where it is used, so that several are waited for at once.
        """
        mlir = self.mlir
        operations = list(mlir.operations(block))
        order = {op: i for i, op in enumerate(operations)}
        end = len(operations) - 1
        last = max((i for i, s in enumerate(steps) if _uses_transient(s)), default=-1)
        flat: list[Step] = []
        loads: list[Step] = []
        limit = end
        to_begin = to_free = top

        def flush(at: int, done: int) -> None:
            nonlocal limit, to_begin, to_free
            if to_begin:
                to_begin = False
                self.allocate(operations[at])
            if flat:
                self.execute(flat, operations[at])
            if loads:
                self.load(loads, operations[at])
            flat.clear()
            loads.clear()
            limit = end
            if to_free and done > last:
                to_free = False
                self.free(operations[at])

        for i, step in enumerate(steps):
            here = order[step.at.handle] if step.at is not None else end
            if loads and here >= limit:
                flush(limit, i)
            if step.kind in FLAT:
                flat.append(step)
            elif step.kind == "load":
                assert step.op is not None
                loads.append(step)
                limit = min(limit, self.first_use(mlir.mlirOperationGetResult(step.op.handle, 0), order, end))
            elif not (top and step.kind == "new"):
                flush(here, i)
                getattr(self, "write_" + step.kind)(step, operations[here])
        flush(limit if loads else end, len(steps))

    def first_use(self, value: int, order: dict[int, int], end: int) -> int:
        """The number of the first operation of a block that needs a value, itself or within."""
        mlir, first = self.mlir, end
        for user, _ in mlir.uses(value):
            while user and user not in order:
                user = mlir.mlirOperationGetParentOperation(user)
            first = min(first, order.get(user, end))
        return first

    def execute(self, steps: Sequence[Step], before: int) -> None:
        """Commands for the device, after all that came before."""
        mlir, types = self.mlir, self.types
        self.here = before
        used = list(dict.fromkeys(self.memory[r.buffer] for step in steps for r in step.ranges))
        region = mlir.mlirRegionCreate()
        kinds = [kind for _, _, kind in used]
        body = mlir.mlirBlockCreate(len(kinds), _pointer(*kinds), _pointer(*[self.location] * len(kinds)))
        mlir.mlirRegionAppendOwnedBlock(region, body)
        inside = {resource: mlir.mlirBlockGetArgument(body, i) for i, (resource, _, _) in enumerate(used)}
        wave: list[Step] = []
        for step in steps:
            if wave and step.wave != wave[-1].wave:
                self.commands(wave, body, inside)
                wave = []
            wave.append(step)
        self.commands(wave, body, inside)
        self.create(b"stream.yield", [], [], {}, last_in=body)
        waits = [self.timepoint] if self.timepoint else []
        operands = [*(r for r, _, _ in used), *(n for _, n, _ in used), *waits]
        attributes: dict[bytes, int | None] = {
            b"affinity": self.affinity, b"operandSegmentSizes": types.segments(len(used), len(used), len(waits)),
        }  # fmt: skip
        if self.once:
            # Commands that are kept for further calls would be kept for none, and IREE 3.13 crashes when it tries.
            attributes[b"once"] = types.attribute(b"unit")
        op = self.create(
            b"stream.cmd.execute", operands, [types.timepoint], attributes, before=before, regions=[region]
        )
        self.timepoint = mlir.mlirOperationGetResult(op, 0)

    def commands(self, wave: Sequence[Step], block: int, inside: dict[int, int]) -> None:
        """Those that may run at the same time."""
        mlir = self.mlir
        if len(wave) > 1:
            region = mlir.mlirRegionCreate()
            body = mlir.mlirBlockCreate(0, None, None)
            mlir.mlirRegionAppendOwnedBlock(region, body)
            for step in wave:
                getattr(self, "write_" + step.kind)(step, body, inside)
            self.create(b"stream.yield", [], [], {}, last_in=body)
            self.create(b"stream.cmd.concurrent", [], [], {}, last_in=block, regions=[region])
        else:
            getattr(self, "write_" + wave[0].kind)(wave[0], block, inside)

    def at(self, place: Range, inside: dict[int, int]) -> tuple[int, int, int]:
        """The resource of a range within commands, its size, and the range's offset."""
        resource, size, _ = self.memory[place.buffer]
        base = self.base.get(place.buffer)
        if base is None:
            return inside[resource], size, self.number(place.offset + self.staged.get(place.buffer, 0))
        return inside[resource], size, self.sum(base, place.offset)

    def sum(self, base: int, by: int) -> int:
        """An offset of the host's and a number."""
        if not by:
            return base
        op = self.create(b"arith.addi", [base, self.number(by)], [self.types.index], {}, before=self.here)
        return self.mlir.mlirOperationGetResult(op, 0)

    def moved(self, offset: int, place: Range) -> int:
        """An offset of the host's within a range, from the beginning of its resource."""
        base = self.base.get(place.buffer)
        if base is not None:
            op = self.create(b"arith.addi", [offset, base], [self.types.index], {}, before=self.here)
            offset = self.mlir.mlirOperationGetResult(op, 0)
        return self.sum(offset, place.offset)

    def write_copy(self, step: Step, block: int, inside: dict[int, int]) -> None:
        """A copy, or a slice or an update at an offset of the host's. What the host will read is flushed."""
        target, source = step.ranges
        (to, to_size, to_start), (of, of_size, of_start) = self.at(target, inside), self.at(source, inside)
        length = self.number(target.length)
        if step.op is not None:
            operands = self.mlir.operands(step.op.handle)
            if step.op.kind == "slice":
                of_start = self.moved(operands[2], source)
            else:
                to_start = self.moved(operands[2], target)
                length = operands[-1] if step.op.kind == "copy" else self.number(source.length)
                if step.op.kind == "copy":
                    of_start = self.moved(operands[6], source)
        self.create(b"stream.cmd.copy", [of, of_size, of_start, to, to_size, to_start, length], [], {}, last_in=block)
        if target.buffer.kind == "staging":
            self.create(b"stream.cmd.flush", [to, to_size, to_start, length], [], {}, last_in=block)

    def write_fill(self, step: Step, block: int, inside: dict[int, int]) -> None:
        """A range filled with the host's value."""
        target = step.ranges[0]
        resource, size, start = self.at(target, inside)
        length = self.number(target.length)
        if step.op is not None:
            operands = self.mlir.operands(step.op.handle)
            start, length = self.moved(operands[2], target), operands[4]
        _, value, _ = step.pattern
        assert isinstance(value, int)
        while value in self.replaced:
            value = self.replaced[value]
        self.create(b"stream.cmd.fill", [resource, size, start, length, value], [], {}, last_in=block)

    def write_dispatch(self, step: Step, block: int, inside: dict[int, int]) -> None:
        """A kernel's launch, with a range for each binding."""
        mlir, op = self.mlir, step.op
        assert op is not None
        operands = mlir.operands(op.handle)
        workload, mixed, sizes, starts, ends, _, _ = self.taken.counts(op.handle)
        uniform = [x for x in operands[workload : workload + mixed] if not self.types.is_resource(x)]
        at = [self.at(place, inside) for place in step.ranges]
        offsets = [offset for _, _, offset in at]
        lengths = [self.number(place.length) for place in step.ranges]
        first = workload + mixed + sizes
        for i, (start, length) in enumerate(op.ranges):
            if start is None or length is None:
                offsets[i] = self.moved(operands[first + i], step.ranges[i])
                lengths[i] = operands[first + starts + ends + i]
        n = len(at)
        access = b"[" + b", ".join(_ACCESS.get(a, b"2 : i32") for a in step.access) + b"]"
        attributes: dict[bytes, int | None] = {
            b"entry_points": mlir.attribute(op.handle, b"entry_points"),
            b"operandSegmentSizes": self.types.segments(workload, len(uniform), n, n, n, n),
            b"resource_accesses": self.types.attribute(access),
        }
        self.create(
            b"stream.cmd.dispatch",
            [*operands[:workload], *uniform, *(r for r, _, _ in at), *(s for _, s, _ in at), *offsets, *lengths],
            [], attributes, last_in=block, location=mlir.mlirOperationGetLocation(op.handle),
        )  # fmt: skip

    def load(self, steps: Sequence[Step], before: int) -> None:
        """Wait for scalars and read them."""
        mlir = self.mlir
        resource = self.wait(steps[0].ranges[0].buffer, before)
        _, size, _ = self.memory[steps[0].ranges[0].buffer]
        for step in steps:
            assert step.op is not None
            old = mlir.mlirOperationGetResult(step.op.handle, 0)
            start = self.number(self.staged[step.ranges[0].buffer])
            op = self.create(
                b"stream.resource.load", [resource, size, start], [mlir.mlirValueGetType(old)], {}, before=before
            )
            self.replace(old, mlir.mlirOperationGetResult(op, 0))

    def wait(self, buffer: Buffer, before: int) -> int:
        """A buffer's resource when all that came before is done.

        What comes after waits for the timepoint all the same: this operation goes away if nobody uses its result.
        """
        resource, size, kind = self.memory[buffer]
        if not self.timepoint:
            return resource
        op = self.create(
            b"stream.timepoint.await", [resource, size, self.timepoint], [kind],
            {b"operandSegmentSizes": self.types.segments(1, 1, 1)}, before=before,
        )  # fmt: skip
        return self.mlir.mlirOperationGetResult(op, 0)

    def free(self, before: int) -> None:
        """The transient memory is not needed any more."""
        blocks = list(self.pairs)
        if self.transient:
            blocks.append((self.transient, self.memory[next(b for b in self.plan.buffers if b.kind == "transient")][1]))
        for resource, size in blocks:
            waits = [self.timepoint] if self.timepoint else []
            op = self.create(
                b"stream.resource.dealloca", [resource, size, *waits], [self.types.timepoint],
                {b"affinity": self.affinity}, before=before,
            )  # fmt: skip
            self.timepoint = self.mlir.mlirOperationGetResult(op, 0)

    # -- the host's steps

    def write_new(self, step: Step, before: int) -> None:
        """The memory of a result, or of a global."""
        buffer = step.ranges[0].buffer
        kept = buffer.op is not None and buffer.op.kind == "store"
        self.alloca(buffer, b"constant" if kept else b"external", buffer.size, before)

    def write_take(self, step: Step, before: int) -> None:
        """The memory that a function of the host's has made."""
        buffer = step.ranges[0].buffer
        assert step.op is not None
        resource = self.mlir.mlirOperationGetResult(step.op.handle, 0)
        self.memory[buffer] = (resource, self.number(buffer.size), self.types.resource[b"external"])
        del before

    def write_give(self, step: Step, before: int) -> None:
        """What is handed over, once it is computed."""
        buffer = step.ranges[0].buffer
        self.mlir.mlirOperationSetOperand(before, 0, self.wait(buffer, before))

    def write_call(self, step: Step, before: int) -> None:
        """A function of the host's, which is lent the memory of what it reads and makes."""
        mlir, places = self.mlir, iter(step.ranges)
        exports, imports = self.taken.calls[before]
        ready = {step.ranges[0].buffer: self.wait(step.ranges[0].buffer, before)} if step.ranges else {}
        self.here = before
        arrays: list[int] = []
        for old, export in zip(mlir.operands(before), exports):
            arrays.append(self.lend(next(places), mlir.attribute(export, b"source_encoding"), ready) if export else old)
        for taken in imports:
            arrays.append(self.lend(next(places), mlir.attribute(taken, b"result_encoding"), ready))
        assert step.op is not None
        filling = self.types.filling(step.op.name.encode(), len(arrays), self.function) if imports else None
        callee = filling or mlir.attribute(before, b"callee")
        self.create(
            b"util.call", arrays, [], {b"callee": callee}, before=before, location=mlir.mlirOperationGetLocation(before)
        )

    def lend(self, place: Range, encoding: int | None, ready: dict[Buffer, int]) -> int:
        """A range as an array of the host's, without a copy."""
        resource, size, kind = self.memory[place.buffer]
        resource = ready.get(place.buffer, resource)
        base = self.base.get(place.buffer)
        if base is not None or place.length != place.buffer.size:
            start = self.number(place.offset) if base is None else self.sum(base, place.offset)
            size, whole = self.number(place.length), size
            view = self.create(b"stream.resource.subview", [resource, whole, start, size], [kind], {}, before=self.here)
            resource = self.mlir.mlirOperationGetResult(view, 0)
        op = self.create(
            b"stream.tensor.export", [resource, size], [self.types.array],
            {b"source_encoding": encoding, b"affinity": self.affinity}, before=self.here,
        )  # fmt: skip
        return self.mlir.mlirOperationGetResult(op, 0)

    def write_host(self, step: Step, before: int) -> None:
        """What it is given has been waited for, and what was to be done before is on its way."""
        del step, before

    def now(self, before: int = 0, last_in: int = 0) -> int:
        """The timepoint, also where there is nothing to wait for."""
        if self.timepoint:
            return self.timepoint
        op = self.create(b"stream.timepoint.immediate", [], [self.types.timepoint], {}, before=before, last_in=last_in)
        return self.mlir.mlirOperationGetResult(op, 0)

    def write_loop(self, step: Step, before: int) -> None:
        """A loop that carries what is no resource, and the timepoint."""
        mlir, old = self.mlir, before
        initial = [x for x in mlir.operands(old) if not self.types.is_resource(x)]
        bases = [self.base[buffer] for pair in step.exchanged for buffer in pair]
        self.rebuilt(step, old, [*initial, *bases, self.now(before=old)])

    def write_branch(self, step: Step, before: int) -> None:
        """A branch, each part of which begins when what is before it is done."""
        self.rebuilt(step, before, self.mlir.operands(before), entered=self.now(before=before))

    def rebuilt(self, step: Step, old: int, operands: list[int], entered: int = 0) -> None:
        """The operation without resources among what it takes, carries and gives, and with the timepoint."""
        mlir, types = self.mlir, self.types
        regions: list[int] = []
        exchanged = [buffer for pair in step.exchanged for buffer in pair]
        swapped = [buffer for one, other in step.exchanged for buffer in (other, one)]
        for number, (inner, steps) in enumerate(zip(mlir.regions(old), step.parts, strict=True)):
            block = mlir.mlirRegionGetFirstBlock(inner)
            if not block:  # a branch in which nothing is done
                block = mlir.mlirBlockCreate(0, None, None)
                mlir.mlirRegionAppendOwnedBlock(inner, block)
                self.create(b"scf.yield", [], [], {}, last_in=block)
            for buffer in exchanged:
                self.base[buffer] = mlir.mlirBlockAddArgument(block, types.index, self.location)
            # What the region begins with: the timepoint is its last argument, or that before the branch.
            self.timepoint = entered or mlir.mlirBlockAddArgument(block, types.timepoint, self.location)
            self.steps(block, steps)
            end = mlir.mlirBlockGetTerminator(block)
            kept = [x for x in mlir.operands(end) if not types.is_resource(x)]
            last = number == len(step.parts) - 1
            kept += [self.base[buffer] for buffer in (swapped if last else exchanged)]
            self.create(mlir.name(end), [*kept, self.now(before=end)], [], {}, before=end)
            mlir.mlirOperationRemoveFromParent(end)
            mlir.mlirOperationDestroy(end)
            region = mlir.mlirRegionCreate()
            mlir.mlirRegionTakeBody(region, inner)
            regions.append(region)
        results = [r for r in mlir.results(old) if not types.is_resource(r)]
        attributes = {
            mlir_c.content(mlir.mlirIdentifierStr(named.name)): named.attribute
            for named in (
                mlir.mlirOperationGetAttribute(old, i) for i in range(mlir.mlirOperationGetNumAttributes(old))
            )
        }
        kinds = [*(mlir.mlirValueGetType(r) for r in results), *[types.index] * len(exchanged), types.timepoint]
        new = self.create(
            mlir.name(old), operands, kinds, attributes, before=old, regions=regions,
            location=mlir.mlirOperationGetLocation(old),
        )  # fmt: skip
        *made, self.timepoint = mlir.results(new)
        if exchanged:
            self.base.update(zip(exchanged, made[-len(exchanged) :]))
            del made[-len(exchanged) :]
        for before, after in zip(results, made, strict=True):
            self.replace(before, after)

    def replace(self, old: int, new: int) -> None:
        """Another operation gives a value of the host's."""
        self.mlir.mlirValueReplaceAllUsesOfWith(old, new)
        self.replaced[old] = new

    def erase(self) -> None:
        """What the plan stands for: users first, then the arguments that blocks had."""
        mlir = self.mlir
        for op in reversed(self.taken.resource_ops):
            mlir.mlirOperationRemoveFromParent(op)
            mlir.mlirOperationDestroy(op)
        self.arguments(self.block)

    def arguments(self, block: int) -> None:
        """Take resources away from the arguments of the blocks within."""
        mlir = self.mlir
        for op in mlir.operations(block):
            for region in mlir.regions(op):
                inner = mlir.mlirRegionGetFirstBlock(region)
                if inner:
                    self.arguments(inner)
                    for i in reversed(range(mlir.mlirBlockGetNumArguments(inner))):
                        if self.types.is_resource(mlir.mlirBlockGetArgument(inner, i)) and mlir.name(op) in _LOOPS:
                            mlir.mlirBlockEraseArgument(inner, i)


def _uses_transient(step: Step) -> bool:
    return any(r.buffer.kind in ("transient", "alternating") for s in walk([step]) for r in (*s.ranges, *s.slots))


def _pointer(*values: int | None) -> object:
    """An array of handles."""
    import ctypes

    return (ctypes.c_void_p * len(values))(*values)
