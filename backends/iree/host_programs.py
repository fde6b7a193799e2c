"""IREE's host functions as programs to plan (backends/plan): operations on values of known sizes.

A function is taken after pipelines.VALUES: tensors are resources, which are values still (`stream.async.*`).

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import mlir_c
from plan.program import Op, Program, Region

_SAME = frozenset((b"stream.async.clone", b"stream.async.cast", b"stream.async.transfer", b"util.optimization_barrier"))
_KINDS = (b"*", b"external", b"staging", b"transient", b"variable", b"constant")
_CALLS = frozenset((b"util.call", b"hal.fence.await", b"util.do_not_optimize"))
HOST = b"host."
"""What the names of Python functions begin with."""
FILLING = b"filling_"
"""What the names of their forms begin with that fill arrays which they are lent."""
_ENDS = frozenset((b"scf.yield", b"scf.condition"))


class NotPlanned(Exception):
    """The module holds something that the plan does not know."""


class HostTypes:
    """Types and attributes of one context, by their text."""

    def __init__(self, mlir: mlir_c.Mlir, module: int, lends: bool = False) -> None:
        self.mlir = mlir
        self.lends = lends
        """Whether functions of the host's are lent the program's memory, which they must be able to reach."""
        self.context = mlir.mlirOperationGetContext(module)
        self.attributes: dict[bytes, int] = {}
        self.resource = {kind: self.type(b"!stream.resource<%s>" % kind) for kind in _KINDS}
        self.resources = frozenset(self.resource.values())
        self.timepoint = self.type(b"!stream.timepoint")
        self.index = mlir.mlirIndexTypeGet(self.context)
        self.array = self.type(b"!hal.buffer_view")
        self.declared: dict[tuple[bytes, int], int] = {}
        """References to the functions that fill what they are lent, by name and number of arrays."""
        self.stored: list[bytes] = []
        """The globals that hold resources."""

    def type(self, text: bytes) -> int:
        """An MLIR type from its text."""
        return self.mlir.mlirTypeParseGet(self.context, mlir_c.text(text))

    def attribute(self, text: bytes) -> int:
        """An MLIR attribute from its text; parsed once."""
        found = self.attributes.get(text)
        if found is None:
            found = self.attributes[text] = self.mlir.mlirAttributeParseGet(self.context, mlir_c.text(text))
        return found

    def segments(self, *counts: int) -> int:
        """The attribute that says how many operands of each sort an operation has."""
        import ctypes

        return self.mlir.mlirDenseI32ArrayGet(self.context, len(counts), (ctypes.c_int32 * len(counts))(*counts))

    def filling(self, name: bytes, arrays: int, before: int) -> int:
        """A reference to the form of a Python function that takes so many arrays, the last of which it fills.

        It is declared before a function of the module if it is not yet. Its name is told by runtime/host_functions.py.
        """
        found = self.declared.get((name, arrays))
        if found is None:
            mlir = self.mlir
            symbol = HOST + FILLING + name
            kind = self.type(b"(" + b", ".join([b"!hal.buffer_view"] * arrays) + b") -> ()")
            attributes: dict[bytes, int | None] = {
                b"sym_name": mlir.mlirStringAttrGet(self.context, mlir_c.text(symbol)),
                b"sym_visibility": self.attribute(b'"private"'),
                b"function_type": mlir.mlirTypeAttrGet(kind),
                b"iree.abi.stub": self.attribute(b"unit"),
            }
            location = mlir.mlirOperationGetLocation(before)
            regions = [mlir.mlirRegionCreate()]
            mlir.create(b"util.func", [], [], attributes, before=before, location=location, regions=regions)
            found = self.declared[name, arrays] = self.attribute(b"@" + symbol)
        return found

    def is_resource(self, value: int) -> bool:
        """Whether a value is memory, in contrast to a number of the host's."""
        return self.mlir.mlirValueGetType(value) in self.resources

    def of_resource(self, op: int) -> bool:
        """Whether an operation takes, makes or holds resources."""
        mlir = self.mlir
        if any(self.is_resource(x) for x in (*mlir.operands(op), *mlir.results(op))):
            return True
        return any(self.of_resource(inner) for region in mlir.regions(op) for inner in self.inner(region))

    def inner(self, region: int) -> list[int]:
        """The operations of a region."""
        return list(self.mlir.operations(self.mlir.mlirRegionGetFirstBlock(region)))

    def branches_of_selects(self, module: int) -> None:
        """Branches in which nothing is done, which IREE makes selects of, are branches again."""
        mlir = self.mlir
        for op in mlir.in_hosts(module, frozenset((b"arith.select",))):
            result = mlir.mlirOperationGetResult(op, 0)
            if not self.is_resource(result):
                continue
            condition, *values = mlir.operands(op)
            location = mlir.mlirOperationGetLocation(op)
            regions: list[int] = []
            for value in values:
                region, block = mlir.mlirRegionCreate(), mlir.mlirBlockCreate(0, None, None)
                mlir.mlirRegionAppendOwnedBlock(region, block)
                mlir.create(b"scf.yield", [value], [], {}, last_in=block, location=location)
                regions.append(region)
            kind = mlir.mlirValueGetType(result)
            branch = mlir.create(b"scf.if", [condition], [kind], {}, before=op, regions=regions)
            mlir.mlirValueReplaceAllUsesOfWith(result, mlir.mlirOperationGetResult(branch, 0))
            mlir.mlirOperationRemoveFromParent(op)
            mlir.mlirOperationDestroy(op)

    def type_globals(self, module: int) -> None:
        """What is stored once and for all is constant."""
        mlir = self.mlir
        kind = mlir.mlirTypeAttrGet(self.resource[b"constant"])
        for op in mlir.named(mlir.first_block(module), b"util.global"):
            if mlir.symbol(op) in self.stored:
                mlir.mlirOperationSetAttributeByName(op, mlir_c.text(b"type"), kind)


class HostFunction:
    """A function as a program; `value` says which of MLIR's values is which of the program's."""

    def __init__(self, mlir: mlir_c.Mlir, types: HostTypes, function: int) -> None:
        self.mlir, self.types, self.function = mlir, types, function
        name = b"main" if mlir.name(function) == b"util.initializer" else mlir.symbol(function)
        self.program = Program(name.decode())
        self.value: dict[int, int] = {}
        self.constants: dict[int, int | None] = {}
        self.affinity: int | None = None
        """The device on which everything is done."""
        self.resource_ops: list[int] = []
        """Those that the plan stands for, in order."""
        self.calls: dict[int, tuple[list[int], list[int]]] = {}
        """Of each call that is lent memory: the exports of its arguments (0: an array of the caller's), the imports of its results."""
        self.lent: set[int] = set()
        """The exports and imports of such calls, for which nothing is done any more."""
        self.block = mlir.first_block(function) or 0
        if mlir.mlirBlockGetNextInRegion(self.block):
            raise NotPlanned("a function of several blocks")
        self.fill(self.program.region, self.block)

    def constant(self, value: int) -> int | None:
        """The number that a value always is."""
        if value not in self.constants:
            self.constants[value] = self.number_of(value)
        return self.constants[value]

    def number_of(self, value: int) -> int | None:
        """The integer that an `arith.constant` gives; None for any other value."""
        mlir = self.mlir
        if mlir.mlirValueIsABlockArgument(value):
            return None
        op = mlir.mlirOpResultGetOwner(value)
        if mlir.name(op) != b"arith.constant":
            return None
        attribute = mlir.attribute(op, b"value")
        return mlir.mlirIntegerAttrGetValueInt(attribute) if mlir.mlirAttributeIsAInteger(attribute) else None

    def size(self, value: int) -> int:
        """The bytes that a value of the host's says, which must be known. Raises NotPlanned otherwise."""
        found = self.constant(value)
        if found is None:
            raise NotPlanned("the size of an array is not known before it runs")
        return found

    def define(self, value: int, size: int) -> int:
        """The number, in the program, of a new value of so many bytes."""
        number = self.value[value] = self.program.value(size)
        return number

    def fill(self, region: Region, block: int) -> None:
        """Append a block's operations to a region of the program. Raises NotPlanned for what no plan stands for."""
        mlir, types = self.mlir, self.types
        for op in mlir.operations(block):
            name = mlir.name(op)
            if name in _ENDS:
                continue
            if name == b"util.call" and self.takes_memory(op):
                region.operations.append(self.call(op))
            elif name in _CALLS:
                region.operations.append(Op("host", name="call", handle=op))
            elif types.of_resource(op):
                self.affinity = self.affinity or mlir.attribute(op, b"affinity")
                if op in self.lent or (name == b"stream.tensor.export" and self.only_lent(op)):
                    self.resource_ops += [op] if op not in self.lent else []
                    continue
                made = self.op(name, op)
                if made is not None:
                    region.operations.append(made)
                if name not in (b"stream.tensor.import", b"stream.tensor.export", b"util.global.store"):
                    self.resource_ops.append(op)

    def op(self, name: bytes, op: int) -> Op | None:
        """One operation on resources; None for one that gives its operands again. Raises NotPlanned for unknown ones."""
        take = _TAKEN.get(name)
        if take is None:
            raise NotPlanned(f"{name.decode()} on resources")
        return take(self, op, self.mlir.operands(op), self.mlir.results(op))

    def same(self, op: int, operands: list[int], results: list[int]) -> None:
        """What gives its operands again: a barrier may hold several. Raises NotPlanned where some are no resources."""
        del op
        if not all(map(self.types.is_resource, results)):
            raise NotPlanned("a barrier on resources and other values")
        for x, r in zip(operands, results):
            self.value[r] = self.value[x]

    def slice(self, op: int, operands: list[int], results: list[int]) -> Op:
        """A range of an array as a value."""
        x, _, start, _, size = operands
        made = self.define(results[0], self.size(size))
        return Op("slice", (self.value[x],), (made,), offset=self.constant(start), handle=op)

    def update(self, op: int, operands: list[int], results: list[int]) -> Op:
        """An array with a range replaced by another array."""
        target, size, start, _, source, _ = operands
        both = self.value[target], self.value[source]
        made = self.define(results[0], self.size(size))
        return Op("update", both, (made,), offset=self.constant(start), handle=op)

    def copy(self, op: int, operands: list[int], results: list[int]) -> Op:
        """An array with a range replaced by a range of another array."""
        target, size, start, _, source, _, begin, _, length = operands
        both = self.value[target], self.value[source]
        made = self.define(results[0], self.size(size))
        at = self.constant
        return Op(
            "copy", both, (made,), offset=at(start), source_offset=at(begin), length=at(length), handle=op
        )  # fmt: skip

    def filled(self, op: int, operands: list[int], results: list[int]) -> Op:
        """An array with a range filled with a scalar."""
        target, size, start, _, length, pattern = operands
        made = self.define(results[0], self.size(size))
        at = self.constant
        return Op(
            "fill", (self.value[target],), (made,), offset=at(start), length=at(length), pattern=self.pattern(pattern),
            handle=op,
        )  # fmt: skip

    def pattern(self, scalar: int) -> tuple[str, int, int]:
        """A scalar of the host's that is repeated."""
        return ("host", scalar, self.bits(scalar) // 8)

    def splat(self, op: int, operands: list[int], results: list[int]) -> Op:
        """A new array that is filled with a scalar."""
        pattern, size = operands
        return Op("splat", (), (self.define(results[0], self.size(size)),), pattern=self.pattern(pattern), handle=op)

    def alloca(self, op: int, operands: list[int], results: list[int]) -> Op:
        """A new array whose content does not matter."""
        return Op("alloca", (), (self.define(results[0], self.size(operands[0])),), handle=op)

    def array(self, op: int, operands: list[int], results: list[int]) -> Op:
        """A constant of the module."""
        return Op("constant", (), (self.define(results[0], self.size(operands[0])),), handle=op)

    def load(self, op: int, operands: list[int], results: list[int]) -> Op:
        """A scalar that the host reads. Raises NotPlanned unless its place is known."""
        x, _, start = operands
        offset = self.constant(start)
        if offset is None:
            raise NotPlanned("a scalar at an unknown place")
        return Op("load", (self.value[x],), (), offset=offset, length=-(-self.bits(results[0]) // 8), handle=op)

    def imported(self, op: int, operands: list[int], results: list[int]) -> Op:
        """A caller's array; `late` is one that a function of the host's has made."""
        mlir, view = self.mlir, operands[0]
        late = not mlir.mlirValueIsABlockArgument(view) or mlir.mlirBlockArgumentGetOwner(view) != self.block
        name = "" if late else f"arg{mlir.mlirBlockArgumentGetArgNumber(view)}"
        donated = not late and bool(mlir.attribute(op, b"consume")) and self.only_here(op, view)
        made = self.define(results[0], self.size(operands[-1]))
        return Op("import", (), (made,), name=name, donated=donated, late=late, handle=op)

    def export(self, op: int, operands: list[int], results: list[int]) -> Op:
        """What is handed to the caller."""
        return Op("export", (self.value[operands[0]],), (), name=self.returned(results[0]), handle=op)

    def takes_memory(self, call: int) -> bool:
        """Whether a call is one of a Python function that can be lent the memory of its arguments and results.

        Its results are used in the program only, and none of the arrays is empty.
        """
        mlir = self.mlir
        if not self.types.lends or not mlir_c.content(
            mlir.mlirFlatSymbolRefAttrGetValue(mlir.attribute(call, b"callee"))
        ).startswith(HOST):
            return False
        for view in mlir.operands(call):
            export = self.export_of(view)
            if export and not self.constant(mlir.operands(export)[-1]):
                return False
        for view in mlir.results(call):
            users = [user for user, _ in mlir.uses(view)]
            imports = [user for user in users if mlir.name(user) == b"stream.tensor.import"]
            if not imports or not self.constant(mlir.operands(imports[0])[-1]):
                return False
            if any(mlir.name(user) not in (b"stream.tensor.import", b"hal.buffer_view.assert") for user in users):
                return False
        return True

    def export_of(self, view: int) -> int:
        """The export that makes a caller's array of a value; 0 for an array that the program was given."""
        mlir = self.mlir
        if mlir.mlirValueIsABlockArgument(view):
            return 0
        op = mlir.mlirOpResultGetOwner(view)
        return op if mlir.name(op) == b"stream.tensor.export" else 0

    def only_lent(self, export: int) -> bool:
        """Whether what is exported goes to calls only that are lent memory."""
        mlir = self.mlir
        users = [user for user, _ in mlir.uses(mlir.mlirOperationGetResult(export, 0))]
        return bool(users) and all(mlir.name(u) == b"util.call" and self.takes_memory(u) for u in users)

    def call(self, call: int) -> Op:
        """A call of a function that is lent memory."""
        mlir = self.mlir
        exports = [self.export_of(view) for view in mlir.operands(call)]
        imports: list[int] = []
        made: list[int] = []
        self.resource_ops.append(call)
        for view in mlir.results(call):
            users = list(dict.fromkeys(user for user, _ in mlir.uses(view)))
            self.resource_ops += users
            taken = [user for user in users if mlir.name(user) == b"stream.tensor.import"]
            imports.append(taken[0])
            self.lent.update(taken)
            size = self.size(mlir.operands(taken[0])[-1])
            made.append(self.define(mlir.mlirOperationGetResult(taken[0], 0), size))
            self.value.update((mlir.mlirOperationGetResult(user, 0), made[-1]) for user in taken)
        self.calls[call] = exports, imports
        name = mlir_c.content(mlir.mlirFlatSymbolRefAttrGetValue(mlir.attribute(call, b"callee"))).removeprefix(HOST)
        reads = [self.value[mlir.mlirOperationGetOperand(export, 0)] for export in exports if export]
        return Op("call", reads, made, name=name.decode(), handle=call)

    def store(self, op: int, operands: list[int], results: list[int]) -> Op:
        """What is put into a global, by an initialiser."""
        del results
        self.stored_global(op)
        return Op("store", (self.value[operands[0]],), (), handle=op)

    def returned(self, view: int) -> str:
        """Which of the function's results a caller's array is; empty if it is none."""
        numbers = [number for user, number in self.mlir.uses(view) if self.mlir.name(user) == b"util.return"]
        return f"result{min(numbers)}" if numbers else ""

    def only_here(self, op: int, view: int) -> bool:
        """Whether a caller's array is used by its import only, and not handed back as it is."""
        return all(user == op or self.mlir.name(user) == b"hal.buffer_view.assert" for user, _ in self.mlir.uses(view))

    def stored_global(self, op: int) -> None:
        """Note that the global which an operation names holds memory."""
        symbol = self.mlir.mlirFlatSymbolRefAttrGetValue(self.mlir.attribute(op, b"global"))
        self.types.stored.append(mlir_c.content(symbol))

    def global_load(self, op: int, operands: list[int], results: list[int]) -> Op:
        """Of a global, whose size only its users tell. Raises NotPlanned where none does."""
        del operands
        mlir, result = self.mlir, results[0]
        self.stored_global(op)
        for user, number in mlir.uses(result):
            name = mlir.name(user)
            if name in _SAME and name != b"util.optimization_barrier":
                size = self.size(mlir.mlirOperationGetOperand(user, 1))
                break
            if name == b"stream.async.dispatch":
                size = self.size(self.dispatch_size(user, number))
                break
        else:
            if mlir.uses(result):
                raise NotPlanned("a constant of unknown size")
            size = 0
        symbol = mlir_c.content(mlir.mlirFlatSymbolRefAttrGetValue(mlir.attribute(op, b"global"))).decode()
        return Op("constant", (), (self.define(result, size),), name=symbol.lstrip("_"), handle=op)

    def counts(self, op: int) -> list[int]:
        """How many operands of each of its seven sorts a dispatch has."""
        segments = self.mlir.attribute(op, b"operandSegmentSizes")
        return [self.mlir.mlirDenseI32ArrayGetElement(segments, i) for i in range(7)]

    def dispatch_size(self, op: int, number: int) -> int:
        """The value of the size of one of a dispatch's operands."""
        workload, mixed, *_ = self.counts(op)
        operands = self.mlir.operands(op)
        before = sum(self.types.is_resource(x) for x in operands[workload:number])
        return operands[workload + mixed + before]

    def dispatch(self, op: int, operands: list[int], results: list[int]) -> Op:
        """A kernel's launch: what it reads with the ranges, what it makes, and which result takes which operand's memory."""
        mlir = self.mlir
        workload, mixed, sizes, starts, ends, lengths, _ = self.counts(op)
        all_mixed = operands[workload : workload + mixed]
        resources = [x for x in all_mixed if self.types.is_resource(x)]
        first = workload + mixed + sizes
        begin = operands[first : first + starts]
        length = operands[first + starts + ends : first + starts + ends + lengths]
        result_sizes = operands[first + starts + ends + lengths :]
        order = {i: k for k, i in enumerate(i for i, x in enumerate(all_mixed) if self.types.is_resource(x))}
        ties = mlir.attribute(op, b"tied_operands")
        tied = [
            order.get(mlir.mlirIntegerAttrGetValueInt(mlir.mlirArrayAttrGetElement(ties, r)), -1) if ties else -1
            for r in range(len(results))
        ]
        reads = [self.value[x] for x in resources]
        made = [self.define(r, self.size(n)) for r, n in zip(results, result_sizes)]
        entry = mlir.mlirArrayAttrGetElement(mlir.attribute(op, b"entry_points"), 0)
        name = mlir_c.content(mlir.mlirSymbolRefAttrGetLeafReference(entry)).decode()
        ranges = [(self.constant(a), self.constant(n)) for a, n in zip(begin, length)]
        return Op("dispatch", reads, made, name=name, ranges=ranges, ties=tied, handle=op)

    def bits(self, value: int) -> int:
        """The size of a scalar."""
        mlir = self.mlir
        kind = mlir.mlirValueGetType(value)
        if mlir.mlirTypeIsAInteger(kind):
            return mlir.mlirIntegerTypeGetWidth(kind)
        if mlir.mlirTypeIsAIndex(kind):
            return 64
        return mlir.mlirFloatTypeGetWidth(kind)

    def nested(self, op: int, operands: list[int], results: list[int]) -> Op:
        """A loop or a branch. What is no resource stays with the host. Raises NotPlanned for regions of several blocks."""
        mlir = self.mlir
        kind = {b"scf.for": "for", b"scf.while": "while"}.get(mlir.name(op), "if")
        initial = [self.value[x] for x in operands if self.types.is_resource(x)]
        sizes: list[int] = [self.program.sizes[x] for x in initial]
        regions: list[Region] = []
        for inner in mlir.regions(op):
            block = mlir.mlirRegionGetFirstBlock(inner)
            region = Region()
            regions.append(region)
            if not block:
                continue
            if mlir.mlirBlockGetNextInRegion(block):
                raise NotPlanned("a region of several blocks")
            arguments = [x for x in mlir.arguments(block) if self.types.is_resource(x)]
            region.arguments = (
                [self.define(x, n) for x, n in zip(arguments, sizes, strict=True)] if kind != "if" else []
            )
            self.fill(region, block)
            end = mlir.mlirBlockGetTerminator(block)
            region.yields = [self.value[x] for x in mlir.operands(end) if self.types.is_resource(x)]
            sizes = [self.program.sizes[x] for x in region.yields]
        out = sizes if kind != "while" else [self.program.sizes[x] for x in regions[0].yields]
        made = [self.define(r, n) for r, n in zip([r for r in results if self.types.is_resource(r)], out, strict=True)]
        return Op(kind, initial, made, regions=regions, handle=op)


_TAKEN = {
    **dict.fromkeys(_SAME, HostFunction.same),
    b"stream.async.dispatch": HostFunction.dispatch,
    b"stream.async.slice": HostFunction.slice,
    b"stream.async.update": HostFunction.update,
    b"stream.async.copy": HostFunction.copy,
    b"stream.async.fill": HostFunction.filled,
    b"stream.async.splat": HostFunction.splat,
    b"stream.async.alloca": HostFunction.alloca,
    b"stream.async.constant": HostFunction.array,
    b"stream.async.load": HostFunction.load,
    b"stream.tensor.import": HostFunction.imported,
    b"stream.tensor.export": HostFunction.export,
    b"util.global.load": HostFunction.global_load,
    b"util.global.store": HostFunction.store,
    **dict.fromkeys((b"scf.for", b"scf.while", b"scf.if", b"scf.index_switch"), HostFunction.nested),
}
"""How each operation on resources is taken."""
