"""The host's function as one more kernel, which calls the others one after the other.

A program that runs on the calling thread needs no host between its kernels: what IREE's VM would do there (branches, loops,
scalars that decide them, copies, fills, launches) takes a function of LLVM's dialect beside the kernels a few nanoseconds
each. `make_native` writes that function from the commands of the stream dialect, and leaves to the host's function what
only the runtime can do: to take arguments, to allocate, one dispatch, to give results.

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import mlir_c
import native_launcher
from host_programs import HostTypes
from native_scalars import NotNative, Scalars

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes longer to import than all else here
    from collections.abc import Callable, Sequence
    from typing import Any

LEAST = 4
"""Without loops and branches, fewer dispatches stay with the host: each saves 0.2 us a call, and the function takes 20 ms to
compile."""
MOST_FRAME = 1 << 14
"""The bytes of the stack that a program may take for scalars, and for what changes from launch to launch."""
UNROLLED = 8
"""Fills of up to so many elements are stores one after the other."""

_KEPT = frozenset((b"util.global.load", b"stream.tensor.import", b"hal.buffer_view.assert", b"arith.constant"))
_GIVEN = frozenset((b"stream.tensor.export",))
_TIMES = frozenset(
    b"stream." + name
    for name in (b"timepoint.join", b"timepoint.immediate", b"timepoint.barrier", b"resource.dealloca", b"cmd.flush")
)
"""What says when something is done: here all is done when the next line begins."""


def make_native(mlir: mlir_c.Mlir, module: int) -> str:
    """Rewrite a module's one public function, whose executables are linked to one.

    Returns:
        the reason why nothing was done; empty otherwise.
    """
    block = mlir.first_block(module)
    functions = [op for op in mlir.named(block, b"util.func") if mlir.first_block(op)]
    linked = list(mlir.named(block, b"hal.executable"))
    if len(functions) != 1 or len(linked) != 1:
        return "several functions or executables"
    variants = list(mlir.named(mlir.first_block(linked[0]), b"hal.executable.variant"))
    if len(variants) != 1:
        return "several variants of an executable"
    try:
        native = _Function(mlir, HostTypes(mlir, module), functions[0], linked[0], variants[0])
        native.read()
    except NotNative as reason:
        return str(reason)
    native.write()
    return ""


class _Function(Scalars):
    """One function on its way from the host to the executable."""

    def __init__(self, mlir: mlir_c.Mlir, types: HostTypes, function: int, linked: int, variant: int) -> None:
        super().__init__(mlir, types)
        self.function, self.linked, self.variant = function, linked, variant
        self.symbol = mlir.symbol(function).decode() + "_host"
        self.exports = {mlir.symbol(op): op for op in mlir.named(mlir.first_block(variant), b"hal.executable.export")}
        self.memory: dict[int, str] = {}
        """Each resource, as a pointer."""
        self.root: dict[int, int] = {}
        """Each resource as the host brings it."""
        self.sizes: dict[int, int] = {}
        """The bytes of those that commands use, in the order of their first use."""
        self.order: dict[int, int] = {}
        self.affinity: int | None = None
        self.kept: list[int] = []
        self.given: list[int] = []
        self.allocated: list[int] = []
        self.kernels: dict[str, int] = {}
        self.run, self.run_end = 0, -1
        """How many launches the last call makes, and the number of lines at its end."""
        self.run_count = ""
        self.calls = 0
        self.frame = 0
        """The bytes of the stack so far."""
        self.records = b""
        """What `native_launcher` is told of each launch, one after the other."""

    # -- reading

    def read(self) -> None:
        """Write the function's text. Raises NotNative where something only the host can do."""
        mlir = self.mlir
        region = mlir.mlirOperationGetRegion(self.function, 0)
        blocks: list[int] = []
        block = mlir.mlirRegionGetFirstBlock(region)
        while block:
            blocks.append(block)
            block = mlir.mlirBlockGetNextInRegion(block)
        for number, block in enumerate(blocks):
            self.labels[block] = f"^b{number}"
            if number:
                for value in mlir.arguments(block):
                    if self.scalar(value):
                        self.name(value)
        for number, block in enumerate(blocks):
            if number:
                scalars = [x for x in mlir.arguments(block) if self.scalar(x)]
                listed = ", ".join(f"{self.names[x]}: {self.type(x)}" for x in scalars)
                self.body.append(f"{self.labels[block]}({listed}):" if scalars else f"{self.labels[block]}:")
            for op in mlir.operations(block):
                self.operation(op, first=not number)
        if len(self.sizes) > native_launcher.MOST_BINDINGS:
            raise NotNative(f"{len(self.sizes)} buffers")
        if not self.calls or (len(blocks) == 1 and self.calls < LEAST):
            raise NotNative("less than it would take")

    def operation(self, op: int, first: bool) -> None:
        """One operation of the function's blocks."""
        mlir, name = self.mlir, self.mlir.name(op)
        if name in _KEPT or name == b"stream.resource.alloca":
            self.keep(op, name, first)
        elif name in _GIVEN:
            self.given.append(op)
        elif name == b"util.return":
            self.given.append(op)
            zero = self.constant(0, "i32")
            self.body.append(f"llvm.return {zero} : i32")
        elif name == b"stream.timepoint.await":
            count = mlir.mlirOperationGetNumResults(op)
            for operand, result in zip(mlir.operands(op)[:count], mlir.results(op)):
                self.alias(result, operand)
        elif name == b"stream.cmd.execute":
            self.commands(op)
        elif name == b"stream.resource.load":
            resource, _, offset = mlir.operands(op)
            result = mlir.mlirOperationGetResult(op, 0)
            place = self.place(self.resource(resource), offset)
            self.body.append(f"{self.name(result)} = llvm.load {place} : !llvm.ptr -> {self.type(result)}")
        elif name.startswith(b"arith."):
            self.arithmetic(op, name)
        elif name.startswith(b"cf."):
            self.branch(op, name)
        elif name == b"stream.resource.subview":  # a part that is lent
            raise NotNative("functions of the host's are called within the program")
        elif name not in _TIMES:
            raise NotNative(name.decode())

    def keep(self, op: int, name: bytes, first: bool) -> None:
        """What the host still does: bring arguments and constants, allocate. It is done before all else."""
        mlir = self.mlir
        if name == b"arith.constant":
            self.number(op)
            self.kept.append(op)
            return
        if not first:
            raise NotNative(f"{name.decode()} within the program")
        if name == b"hal.buffer_view.assert":
            self.kept.append(op)
            return
        resource = mlir.mlirOperationGetResult(op, 0)
        kind, kinds = mlir.mlirValueGetType(resource), self.host_types.resource
        if name == b"util.global.load" and kind != kinds[b"constant"]:
            raise NotNative("a global that is no constant array")
        if name == b"stream.resource.alloca":
            if kind == kinds[b"staging"]:
                self.stack(resource, mlir.operands(op)[0])
                return
            self.allocated.append(op)
        self.kept.append(op)
        self.memory[resource], self.root[resource] = f"%m{len(self.memory)}", resource

    def stack(self, resource: int, size: int) -> None:
        """Scalars that the host would read lie on the stack."""
        self.memory[resource] = self.framed(self.entry, self.reserve(self.known(size)))

    def alias(self, value: int, of: int) -> None:
        """Another name of a resource."""
        self.memory[value] = self.resource(of)
        if of in self.root:
            self.root[value] = self.root[of]

    def resource(self, value: int) -> str:
        """The memory of a resource."""
        found = self.memory.get(value)
        if found is None:
            raise NotNative("memory that is chosen while the program runs")
        return found

    # -- commands

    def commands(self, execute: int) -> None:
        """Those of one `stream.cmd.execute`."""
        mlir = self.mlir
        block = mlir.first_block(execute)
        self.affinity = mlir.attribute(execute, b"affinity")
        inside, operands = mlir.arguments(block or 0), mlir.operands(execute)
        for argument, operand, size in zip(inside, operands, operands[len(inside) :]):
            self.alias(argument, operand)
            if argument in self.root:
                self.sizes[self.root[argument]] = self.known(size)
                self.order.setdefault(self.root[argument], len(self.order))
        self.command_list(block)

    def command_list(self, block: int | None) -> None:
        """The commands of a block, in order."""
        for op in self.mlir.operations(block):
            name = self.mlir.name(op)
            if name in (b"stream.cmd.concurrent", b"stream.cmd.serial"):
                self.command_list(self.mlir.first_block(op))
            elif name == b"stream.cmd.dispatch":
                self.dispatch(op)
            elif name == b"stream.cmd.copy":
                source, _, source_at, target, _, target_at, length = self.mlir.operands(op)
                to, of = self.place(self.resource(target), target_at), self.place(self.resource(source), source_at)
                self.body.append(
                    f'"llvm.intr.memcpy"({to}, {of}, {self.value(length)}) <{{isVolatile = false}}> :'
                    " (!llvm.ptr, !llvm.ptr, i64) -> ()"
                )
            elif name == b"stream.cmd.fill":
                self.fill(op)
            elif name != b"stream.yield" and name not in _TIMES:
                raise NotNative(name.decode())

    def place(self, pointer: str, offset: int) -> str:
        """A place in memory."""
        known = self.numbers.get(offset)
        if known == 0:
            return pointer
        out = self.fresh()
        at, kind = (self.value(offset), "(!llvm.ptr, i64)") if known is None else (known, "(!llvm.ptr)")
        self.body.append(f"{out} = llvm.getelementptr {pointer}[{at}] : {kind} -> !llvm.ptr, i8")
        return out

    def fill(self, op: int) -> None:
        """A range filled with a scalar."""
        target, _, offset, length, pattern = self.mlir.operands(op)
        to, kind, x = self.place(self.resource(target), offset), self.type(pattern), self.value(pattern)
        width, size = int(kind[1:]) // 8, self.numbers.get(length)
        if width == 1:
            self.body.append(
                f'"llvm.intr.memset"({to}, {x}, {self.value(length)}) <{{isVolatile = false}}> : (!llvm.ptr, i8, i64) -> ()'
            )
        elif size is not None and size <= UNROLLED * width:
            for i in range(size // width):
                at = self.fresh()
                self.body.append(f"{at} = llvm.getelementptr {to}[{i}] : (!llvm.ptr) -> !llvm.ptr, {kind}")
                self.body.append(f"llvm.store {x}, {at} : {kind}, !llvm.ptr")
        else:
            count = self.fresh()
            self.body.append(f"{count} = llvm.udiv {self.value(length)}, {self.constant(width, 'i64')} : i64")

            def store(i: str) -> None:
                at = self.fresh()
                self.body.append(f"{at} = llvm.getelementptr {to}[{i}] : (!llvm.ptr, i64) -> !llvm.ptr, {kind}")
                self.body.append(f"llvm.store {x}, {at} : {kind}, !llvm.ptr")

            self.repeat(count, "i64", store)

    def repeat(self, count: str, kind: str, body: Callable[[str], None]) -> None:
        """A loop over the numbers below one that is not known now."""
        self.count += 1
        head, inside, after = (f"^l{self.count}{part}" for part in "abc")
        i, more, following = self.fresh(), self.fresh(), self.fresh()
        self.body.append(f"llvm.br {head}({self.constant(0, kind)} : {kind})")
        self.body.append(f"{head}({i}: {kind}):")
        self.body.append(f'{more} = llvm.icmp "ult" {i}, {count} : {kind}')
        self.body.append(f"llvm.cond_br {more}, {inside}, {after}")
        self.body.append(f"{inside}:")
        body(i)
        self.body.append(f"{following} = llvm.add {i}, {self.constant(1, kind)} : {kind}")
        self.body.append(f"llvm.br {head}({following} : {kind})")
        self.body.append(f"{after}:")

    def dispatch(self, op: int) -> None:
        """A call of a kernel for each of its workgroups."""
        mlir = self.mlir
        self.calls += 1
        segments = mlir.attribute(op, b"operandSegmentSizes")
        workload, uniform, resources = (mlir.mlirDenseI32ArrayGetElement(segments, i) for i in range(3))
        operands = mlir.operands(op)
        entry = mlir.mlirArrayAttrGetElement(mlir.attribute(op, b"entry_points"), 0)
        callee = mlir_c.content(mlir.mlirSymbolRefAttrGetLeafReference(entry))
        export = self.exports[callee]
        if mlir.attribute(export, b"workgroup_local_memory"):
            raise NotNative("a kernel with memory of the runtime's for each workgroup")
        first = workload + uniform
        counts = self.counts(export, operands[:workload])
        pushed = operands[workload:first]
        buffers = operands[first : first + resources]
        offsets = operands[first + 2 * resources : first + 3 * resources]
        lengths = operands[first + 3 * resources : first + 4 * resources]
        if all(x in self.root for x in buffers) and all(x in self.numbers for x in offsets):
            table = "%buffers"
            numbers = [self.order[self.root[x]] for x in buffers]
            starts = [self.numbers[x] for x in offsets]
        else:
            table = self.table("!llvm.ptr", 8, [self.place(self.resource(x), at) for x, at in zip(buffers, offsets)])
            numbers, starts = list(range(resources)), [0] * resources
        known = [self.numbers[x] for x in pushed if x in self.numbers]
        scalars = "%none"
        if len(known) < len(pushed):
            scalars, known = self.table("i32", 4, [self.value(x) for x in pushed]), []
        kernel = self.kernels.setdefault(callee.decode(), len(self.kernels))
        sizes = [self.numbers.get(n, 0) for n in lengths]
        told = native_launcher.record(kernel, counts, len(pushed), known, sizes, numbers, starts)
        # With nothing between them, launches follow one another in one call.
        plain = table == "%buffers" and scalars == "%none"
        if not plain or self.run_end != len(self.body):
            at, self.run_count, self.run = self.fresh(), self.fresh(), 0
            self.body += [
                f"{at} = llvm.getelementptr %records[{len(self.records)}] : (!llvm.ptr) -> !llvm.ptr, i8",
                "",
                f"llvm.call @{native_launcher.NAME}(%env, {table}, {at}, {scalars}, {self.run_count}) :"
                " (!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64) -> ()",
            ]
            self.run_end = len(self.body) if plain else -1
        self.run += 1
        self.body[-2] = f"{self.run_count} = llvm.mlir.constant({self.run} : i64) : i64"
        self.records += told

    def reserve(self, size: int) -> int:
        """So many bytes of the stack: their place in the function's frame."""
        at = self.frame
        self.frame += -(-size // 16) * 16
        if self.frame > MOST_FRAME:
            raise NotNative(f"more than {MOST_FRAME} bytes of the stack")
        return at

    def framed(self, lines: list[str], at: int) -> str:
        """A pointer to a place in the frame."""
        out = self.fresh()
        lines.append(f"{out} = llvm.getelementptr %frame[{at}] : (!llvm.ptr) -> !llvm.ptr, i8")
        return out

    def table(self, kind: str, size: int, items: Sequence[str]) -> str:
        """An array in the frame, stored where the program is now."""
        at = self.reserve(size * len(items))
        for i, x in enumerate(items):
            self.body.append(f"llvm.store {x}, {self.framed(self.body, at + size * i)} : {kind}, !llvm.ptr")
        return self.framed(self.body, at)

    def counts(self, export: int, workload: Sequence[int]) -> list[int]:
        """The numbers of workgroups along x, y and z. Raises NotNative where they are not known now."""
        mlir = self.mlir
        block = mlir.first_block(export) or 0
        known = {x: self.numbers[y] for x, y in zip(mlir.arguments(block)[1:], workload) if y in self.numbers}
        for op in mlir.operations(block):
            name = mlir.name(op)
            if name == b"arith.constant":
                known[mlir.mlirOperationGetResult(op, 0)] = mlir.mlirIntegerAttrGetValueInt(
                    mlir.attribute(op, b"value")
                )
            elif name == b"hal.return" and all(x in known for x in mlir.operands(op)):
                return [known[x] for x in mlir.operands(op)]
        raise NotNative("a kernel whose number of workgroups is computed")

    # -- writing

    def write(self) -> None:
        """Put the function beside the kernels, and its dispatch in place of what the host did."""
        mlir = self.mlir
        bound = [(resource, mlir.name(mlir.mlirOpResultGetOwner(resource))) for resource in self.sizes]
        source = mlir.mlirModuleCreateParse(self.host_types.context, mlir_c.text(self.text(bound).encode()))
        if not source:
            raise ValueError("the compiler does not read the host's function")
        self.place_kernel(mlir.mlirModuleGetOperation(source))
        mlir.mlirModuleDestroy(source)
        self.place_host(bound)

    def text(self, bound: Sequence[tuple[int, bytes]]) -> str:
        """A module with the function, and how it is launched."""
        flags = ", ".join(
            "#hal.pipeline.binding<storage_buffer, " + ("ReadOnly>" if name == b"util.global.load" else "Indirect>")
            for _, name in bound
        )
        lines = [f"llvm.func @{name}(!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32" for name in self.kernels]
        told = "{llvm.align = 16 : i64, llvm.noalias, llvm.nonnull, llvm.noundef}"
        lines.append(
            f"llvm.func @{self.symbol}(%env: !llvm.ptr {told}, %state: !llvm.ptr {told}, %group: !llvm.ptr {told}) -> i32 {{"
        )
        for (number, kind), name in self.constants.items():
            lines.append(f"{name} = llvm.mlir.constant({number} : {kind}) : {kind}")
        lines += [
            f"%size = llvm.mlir.constant({max(self.frame, 1)} : i64) : i64",
            "%frame = llvm.alloca %size x i8 {alignment = 64 : i64} : (i64) -> !llvm.ptr",
            "%none = llvm.mlir.zero : !llvm.ptr",
            f"%records = llvm.mlir.addressof @{self.symbol}_records : !llvm.ptr",
            "%of = llvm.getelementptr %state[32] : (!llvm.ptr) -> !llvm.ptr, i8",
            "%buffers = llvm.load %of : !llvm.ptr -> !llvm.ptr",
        ]
        for i, (resource, _) in enumerate(bound):
            lines.append(f"%p{i} = llvm.getelementptr %buffers[{i}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr")
            lines.append(f"{self.memory[resource]} = llvm.load %p{i} : !llvm.ptr -> !llvm.ptr")
        lines += [*self.entry, *self.body, "}"]
        tables = native_launcher.tables(self.records, list(self.kernels), f"{self.symbol}_records")
        function = "\n".join([tables, native_launcher.TEXT, *lines])
        target = self.mlir.printed(self.mlir.mlirAttributePrint, self.mlir.attribute(self.variant, b"target")).decode()
        variant = self.mlir.symbol(self.variant).decode()
        head = target[target.index("<") :] if target.startswith("#hal.executable.target") else target
        return f"""
hal.executable private @host {{
  hal.executable.variant public @{variant} target({head}) {{
    hal.executable.export public @{self.symbol} ordinal({len(self.exports)}) layout(#hal.pipeline.layout<bindings = [{flags}],
        flags = Indirect>) count(%device: !hal.device) -> (index, index, index) {{
      %one = arith.constant 1 : index
      hal.return %one, %one, %one : index, index, index
    }} <workgroup_size = [1 : index, 1 : index, 1 : index]>
    builtin.module {{
{function}
    }}
  }}
}}"""

    def place_kernel(self, source: int) -> None:
        """Move the function and its export to the executable of all kernels."""
        mlir = self.mlir
        (executable,) = mlir.named(mlir.first_block(source), b"hal.executable")
        (variant,) = mlir.named(mlir.first_block(executable), b"hal.executable.variant")
        (export,) = mlir.named(mlir.first_block(variant), b"hal.executable.export")
        (new,) = mlir.named(mlir.first_block(variant), b"builtin.module")
        (old,) = mlir.named(mlir.first_block(self.variant), b"builtin.module")
        # What LLVM would put in place of a call is compiled once more, and knows no more: memory comes from the structures.
        alone = self.host_types.attribute(b'["noinline"]')
        for kernel in mlir.named(mlir.first_block(old), b"llvm.func"):
            if mlir.symbol(kernel).decode() in self.kernels:
                mlir.mlirOperationSetAttributeByName(kernel, mlir_c.text(b"passthrough"), alone)
        for op in mlir.operations(mlir.first_block(new)):
            if mlir.mlirRegionGetFirstBlock(mlir.mlirOperationGetRegion(op, 0)) or mlir.name(op) == b"llvm.mlir.global":
                self.moved(op, mlir.first_block(old) or 0)
        mlir.mlirOperationRemoveFromParent(export)
        mlir.mlirBlockInsertOwnedOperationBefore(mlir.first_block(self.variant), old, export)

    def place_host(self, bound: Sequence[tuple[int, bytes]]) -> None:
        """What is left to the host, in one block: arguments and memory, the dispatch, results."""
        mlir = self.mlir
        region = mlir.mlirOperationGetRegion(self.function, 0)
        block = mlir.mlirBlockCreate(0, None, None)
        location = mlir.mlirOperationGetLocation(self.function)
        for argument in mlir.arguments(mlir.mlirRegionGetFirstBlock(region)):
            new = mlir.mlirBlockAddArgument(block, mlir.mlirValueGetType(argument), location)
            mlir.mlirValueReplaceAllUsesOfWith(argument, new)
        for op in self.kept:
            self.moved(op, block)
        types = self.host_types
        index, timepoint, segments = types.index, types.timepoint, types.segments

        def create(
            name: bytes, operands: list[int], kinds: list[int], attributes: dict[bytes, int | None], **more: Any
        ) -> int:
            return mlir.create(name, operands, kinds, attributes, location=location, **{"last_in": block, **more})

        def result(op: int) -> int:
            return mlir.mlirOperationGetResult(op, 0)

        def number(n: int) -> int:
            return result(create(b"arith.constant", [], [index], {b"value": mlir.mlirIntegerAttrGet(index, n)}))

        zero = number(0)
        sizes = [number(self.sizes[resource]) for resource, _ in bound]
        resources = [resource for resource, _ in bound]
        waits = [mlir.mlirOperationGetResult(op, 1) for op in self.allocated]
        if len(waits) > 1:
            waits = [result(create(b"stream.timepoint.join", waits, [timepoint], {}))]
        body = mlir.mlirBlockCreate(0, None, None)
        inside = [mlir.mlirBlockAddArgument(body, mlir.mlirValueGetType(x), location) for x in resources]
        commands = mlir.mlirRegionCreate()
        mlir.mlirRegionAppendOwnedBlock(commands, body)
        n = len(bound)
        executable, variant = (mlir.symbol(op).decode() for op in (self.linked, self.variant))
        access = ", ".join("1 : i32" if name == b"util.global.load" else "3 : i32" for _, name in bound)
        create(
            b"stream.cmd.dispatch", [*inside, *sizes, *[zero] * n, *sizes], [],
            {
                b"entry_points": types.attribute(f"[@{executable}::@{variant}::@{self.symbol}]".encode()),
                b"operandSegmentSizes": segments(0, 0, n, n, n, n), b"resource_accesses": types.attribute(f"[{access}]".encode()),
            }, last_in=body,
        )  # fmt: skip
        create(b"stream.yield", [], [], {}, last_in=body)
        done = result(create(
            b"stream.cmd.execute", [*resources, *sizes, *waits], [timepoint],
            {b"affinity": self.affinity, b"operandSegmentSizes": segments(n, n, len(waits))}, regions=[commands],
        ))  # fmt: skip
        given = {mlir.mlirOperationGetOperand(op, 0) for op in self.given if mlir.name(op) in _GIVEN}
        owned = {self.root[x] for x in given}
        for op in self.allocated:
            if result(op) not in owned:
                size = mlir.mlirOperationGetOperand(op, 0)
                done = result(create(
                    b"stream.resource.dealloca", [result(op), size, done], [timepoint], {b"affinity": self.affinity}
                ))  # fmt: skip
        for op in self.given:
            if mlir.name(op) in _GIVEN:
                source, size, *_ = mlir.operands(op)
                source = self.root[source]
                ready = create(
                    b"stream.timepoint.await", [source, size, done], [mlir.mlirValueGetType(source)],
                    {b"operandSegmentSizes": segments(1, 1, 1)},
                )  # fmt: skip
                mlir.mlirOperationSetOperand(op, 0, result(ready))
            self.moved(op, block)
        emptied = mlir.mlirRegionCreate()
        mlir.mlirRegionTakeBody(emptied, region)
        mlir.mlirRegionDestroy(emptied)
        mlir.mlirRegionAppendOwnedBlock(region, block)

    def moved(self, op: int, block: int) -> None:
        """Put an operation at the end of a block."""
        self.mlir.mlirOperationRemoveFromParent(op)
        self.mlir.mlirBlockAppendOwnedOperation(block, op)
