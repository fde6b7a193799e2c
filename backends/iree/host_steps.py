"""What the host does between kernels, as plain values: what other languages' text is printed from (backends/export).

A module is taken after the executables are linked. The plan of memory and order stands in it as `stream.cmd` operations within
`scf` loops and branches (plan_writing.py), and IREE has settled what the plan leaves open: the bindings and scalars of each
kernel, and its number of workgroups.

The form, of builtin types only (it is sent between processes), is told by `Host` of `backends/export/host.py`.

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import ctypes

import mlir_c
from host_programs import HostTypes
from user_lines import UserLines

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes longer to import than all else here
    from typing import Any

_p = ctypes.c_void_p
_SIGNATURES = {
    "mlirAttributeIsADenseElements": (ctypes.c_bool, [_p]),
    "mlirDenseElementsAttrGetRawData": (_p, [_p]),
    "mlirDenseElementsAttrIsSplat": (ctypes.c_bool, [_p]),
    "mlirDenseI64ArrayGetElement": (ctypes.c_int64, [_p, ctypes.c_ssize_t]),
    "mlirFloatAttrGetValueDouble": (ctypes.c_double, [_p]),
}

ALIGNMENT = 64
"""Of buffers: what IREE's kernels for CPUs take their bindings to have."""

_BINARY = (
    "addi subi muli divsi divui remsi remui andi ori xori shli shrsi shrui addf subf mulf divf maxsi minsi maxui minui "
    "maximumf minimumf maxnumf minnumf"
)
_CASTS = "extui extsi trunci sitofp uitofp fptosi fptoui extf truncf bitcast index_cast index_castui"
SCALARS = frozenset(f"arith.{name}".encode() for name in (*_BINARY.split(), *_CASTS.split(), "negf", "select"))
"""Those that every printer knows; `arith.cmpi` and `arith.cmpf` besides."""
_ORDER = "eq ne slt sle sgt sge ult ule ugt uge".split()
_FLOAT_ORDER = "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split()
"""Predicates by their numbers."""
_NOTHING = frozenset(
    (
        b"stream.timepoint.join", b"stream.timepoint.immediate", b"stream.timepoint.barrier", b"stream.resource.dealloca",
        b"stream.cmd.flush", b"stream.yield", b"hal.buffer_view.assert", b"scf.yield", b"scf.condition",
    )
)  # fmt: skip
"""What says when something is done, or is taken where its block is."""


class NotExported(Exception):
    """Something that only IREE's runtime does, with the user's line."""


def host_of(mlir: mlir_c.Mlir, module: int) -> dict[str, Any]:
    """The module's public function, its kernels and its constants.

    Raises:
        NotExported: an operation that is not known.
    """
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(mlir.library, name)
        function.restype, function.argtypes = result, arguments
        setattr(mlir, name, function)
    block = mlir.first_block(module)
    functions = [op for op in mlir.named(block, b"util.func") if mlir.first_block(op)]
    linked = list(mlir.named(block, b"hal.executable"))
    if len(functions) != 1 or len(linked) > 1:
        raise NotExported("a module of several functions")
    walk = _Walk(mlir, module, functions[0], linked)
    try:
        return walk.read()
    except KeyError:  # of a resource without a buffer
        raise NotExported("memory that is chosen while the program runs") from None


class _Walk:
    """Of one function."""

    def __init__(self, mlir: mlir_c.Mlir, module: int, function: int, linked: list[int]) -> None:
        self.mlir, self.types, self.lines = mlir, HostTypes(mlir, module), UserLines(mlir)
        self.module, self.function = module, function
        variants = [v for x in linked for v in mlir.named(mlir.first_block(x), b"hal.executable.variant")]
        self.exports = {
            mlir.symbol(op): op for v in variants for op in mlir.named(mlir.first_block(v), b"hal.executable.export")
        }
        self.buffers: list[tuple[str, int, int]] = []
        self.constants: list[bytes] = []
        self.kept: dict[bytes, int] = {}
        self.globals: dict[bytes, int] = {}
        """The number of each stored constant."""
        self.kernels: dict[bytes, int] = {}
        self.arena = 0
        self.root: dict[int, int] = {}
        """Each resource's buffer."""
        self.scalar: dict[int, int | float | str] = {}
        self.kinds: dict[int, str] = {}
        self.variables: list[str] = []
        """The type of each variable."""

    def read(self) -> dict[str, Any]:
        """The whole function."""
        mlir = self.mlir
        for op in mlir.named(mlir.first_block(self.module), b"util.initializer"):
            self.initializer(op)
        block = mlir.first_block(self.function) or 0
        self.arguments = mlir.arguments(block)
        ends = [op for op in mlir.operations(block) if mlir.name(op) == b"util.return"]
        self.returned = mlir.operands(ends[0])
        self.exported: dict[int, list[int]] = {}
        """The results that a resource, or an argument, becomes."""
        for op in mlir.operations(block):
            if mlir.name(op) == b"stream.tensor.export":
                made = mlir.mlirOperationGetResult(op, 0)
                source = self.behind(mlir.operands(op)[0])
                self.exported.setdefault(source, []).extend(i for i, x in enumerate(self.returned) if x == made)
        self.results: dict[int, int] = {}
        """The buffer that each result lies in."""
        steps = self.block(block)
        # Of results that lie in one buffer the first is that buffer; what lies elsewhere is brought.
        results: list[tuple[str, int]] = []
        for number, value in enumerate(self.returned):
            if number not in self.results and value in self.arguments:
                # Its size is not told here: an argument without other uses is never brought into a resource.
                results.append(("given", self.arguments.index(value)))
                continue
            kind, of, size = self.buffers[self.results[number]]
            if kind == "argument":
                results.append(("argument", of))
                continue
            if (kind, of) != ("result", number):
                own = self.buffer("result", number, size)
                steps.append(["copy", [own, 0], [self.results[number], 0], size])
            results.append(("result", number))
        return {
            "kernels": [self.kernel(name) for name in self.kernels],
            "exports": len(self.exports),
            "arguments": len(self.arguments),
            "results": results,
            "constants": self.constants,
            "buffers": self.buffers,
            "arena": self.arena,
            "variables": self.variables,
            "steps": steps,
        }

    # -- what is there

    def refuse(self, op: int, what: str = "") -> NotExported:
        """The error for an operation."""
        where = self.lines.of_operation(op)
        return NotExported((what or self.mlir.name(op).decode()) + (f" at {where}" if where else ""))

    def initializer(self, op: int) -> None:
        """A constant array that is stored before the program begins."""
        mlir = self.mlir
        made: dict[int, int] = {}
        for inner in mlir.operations(mlir.first_block(op)):
            name = mlir.name(inner)
            if name == b"stream.resource.constants":
                for value, result in zip(self.data(inner), mlir.results(inner)):
                    made[result] = self.keep(value)
            elif name == b"stream.timepoint.await":
                for operand, result in zip(mlir.operands(inner), mlir.results(inner)):
                    if operand in made:
                        made[result] = made[operand]
            elif name == b"util.global.store":
                symbol = mlir_c.content(mlir.mlirFlatSymbolRefAttrGetValue(mlir.attribute(inner, b"global")))
                self.globals[symbol] = made[mlir.operands(inner)[0]]
            elif name not in (b"arith.constant", b"util.return", b"stream.timepoint.join"):
                raise self.refuse(inner, f"{name.decode()} before the program begins")

    def keep(self, data: bytes) -> int:
        """The number of a constant."""
        number = self.kept.setdefault(data, len(self.constants))
        if number == len(self.constants):
            self.constants.append(data)
        return number

    def data(self, op: int) -> list[bytes]:
        """The bytes of constants."""
        mlir = self.mlir
        values, sizes = mlir.attribute(op, b"values"), mlir.operands(op)
        out: list[bytes] = []
        for i in range(mlir.mlirArrayAttrGetNumElements(values)):
            value, size = mlir.mlirArrayAttrGetElement(values, i), self.number(sizes[i])
            if not mlir.mlirAttributeIsADenseElements(value):
                raise self.refuse(op, "a constant that is not dense")
            at = mlir.mlirDenseElementsAttrGetRawData(value)
            if not mlir.mlirDenseElementsAttrIsSplat(value):
                out.append(ctypes.string_at(at, size))
                continue
            kind = mlir.mlirShapedTypeGetElementType(mlir.mlirAttributeGetType(value))
            text = mlir.printed(mlir.mlirTypePrint, kind).decode()
            bits = int("".join(c for c in text if c.isdigit())) * (2 if text.startswith("complex") else 1)
            one = ctypes.string_at(at, max(1, bits // 8))
            if bits == 1:
                one = b"\1" if one[0] else b"\0"
            out.append(one * (size // len(one)))
        return out

    def buffer(self, kind: str, of: int, size: int) -> int:
        """The number of a buffer; those of the arena begin at `of`."""
        for number, (known, which, _) in enumerate(self.buffers):
            if (known, which) == (kind, of) and kind != "arena":
                return number
        self.buffers.append((kind, of, size))
        return len(self.buffers) - 1

    def reserve(self, size: int) -> int:
        """A buffer of the program's own."""
        at = self.arena
        self.arena += -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        return self.buffer("arena", at, size)

    def behind(self, value: int) -> int:
        """The resource that a value is, once all that came before is done."""
        mlir = self.mlir
        while not mlir.mlirValueIsABlockArgument(value):
            op = mlir.mlirOpResultGetOwner(value)
            if mlir.name(op) != b"stream.timepoint.await":
                break
            value = mlir.operands(op)[mlir.mlirOpResultGetResultNumber(value)]
        return value

    def number(self, value: int) -> int:
        """A number that is known now. Raises NotExported for others."""
        found = self.scalar.get(value)
        if found is None and not self.mlir.mlirValueIsABlockArgument(value):
            op = self.mlir.mlirOpResultGetOwner(value)
            if self.mlir.name(op) == b"arith.constant":
                self.constant(op)
                found = self.scalar.get(value)
        if not isinstance(found, int):
            raise NotExported("a size that is not known before the program runs")
        return found

    def kind(self, value: int) -> str:
        """The type of a scalar; an index is ``index``."""
        kind = self.mlir.mlirValueGetType(value)
        known = self.kinds.get(kind)
        if known is None:
            known = self.kinds[kind] = self.mlir.printed(self.mlir.mlirTypePrint, kind).decode()
        return known

    def is_scalar(self, value: int) -> bool:
        """Whether a value is a number: neither a resource nor a time."""
        return self.kind(value) in ("i1", "i8", "i16", "i32", "i64", "index", "f32", "f64")

    def of(self, value: int) -> int | float | str:
        """A scalar: a number, or a variable's name. Raises NotExported for what has none."""
        found = self.scalar.get(value)
        if found is None:
            raise NotExported(f"a value of type {self.kind(value)} of the host's own")
        return found

    def variable(self, value: int) -> str:
        """A new variable for a value."""
        name = f"v{len(self.variables)}"
        self.variables.append(self.kind(value))
        self.scalar[value] = name
        return name

    def constant(self, op: int) -> None:
        """A number."""
        mlir, result = self.mlir, self.mlir.mlirOperationGetResult(op, 0)
        attribute = mlir.attribute(op, b"value")
        if mlir.mlirAttributeIsAInteger(attribute):
            self.scalar[result] = mlir.mlirIntegerAttrGetValueInt(attribute)
        elif self.kind(result) in ("f32", "f64"):
            self.scalar[result] = mlir.mlirFloatAttrGetValueDouble(attribute)

    def kernel(self, name: bytes) -> dict[str, Any]:
        """What is known of a kernel."""
        mlir, export = self.mlir, self.exports[name]
        local = mlir.attribute(export, b"workgroup_local_memory")
        return {
            "name": name.decode(),
            "ordinal": mlir.mlirIntegerAttrGetValueInt(mlir.attribute(export, b"ordinal")),
            "local": mlir.mlirIntegerAttrGetValueInt(local) if local else 0,
            "counts": self.counts(name),
        }

    def counts(self, name: bytes) -> list[int]:
        """The numbers of workgroups along x, y and z. Raises NotExported where they are not known now."""
        mlir = self.mlir
        known: dict[int, int] = {}
        for op in mlir.operations(mlir.first_block(self.exports[name])):
            if mlir.name(op) == b"arith.constant":
                known[mlir.mlirOperationGetResult(op, 0)] = mlir.mlirIntegerAttrGetValueInt(
                    mlir.attribute(op, b"value")
                )
            elif mlir.name(op) == b"hal.return" and all(x in known for x in mlir.operands(op)):
                return [known[x] for x in mlir.operands(op)]
        raise self.refuse(self.exports[name], f"a kernel ({name.decode()}) whose number of workgroups is computed")

    # -- steps

    def block(self, block: int) -> list[Any]:
        """The steps of a block."""
        steps: list[Any] = []
        for op in self.mlir.operations(block):
            self.step(op, self.mlir.name(op), steps)
        return steps

    def step(self, op: int, name: bytes, steps: list[Any]) -> None:
        """One operation. Raises NotExported for one that is not known."""
        mlir = self.mlir
        if name == b"arith.constant":
            self.constant(op)
        elif name == b"util.global.load":
            symbol = mlir_c.content(mlir.mlirFlatSymbolRefAttrGetValue(mlir.attribute(op, b"global")))
            if symbol not in self.globals:
                raise self.refuse(op, "a global that is no constant array")
            number = self.globals[symbol]
            made = self.buffer("constant", number, len(self.constants[number]))
            self.root[mlir.mlirOperationGetResult(op, 0)] = made
        elif name == b"stream.resource.constants":
            for data, result in zip(self.data(op), mlir.results(op)):
                if self.types.is_resource(result):
                    self.root[result] = self.buffer("constant", self.keep(data), len(data))
        elif name == b"stream.tensor.import":
            *_, size = mlir.operands(op)
            view, result = mlir.operands(op)[0], mlir.mlirOperationGetResult(op, 0)
            if view not in self.arguments:
                raise self.refuse(op, "a value that a function of the host's has made")
            self.root[result] = self.buffer("argument", self.arguments.index(view), self.number(size))
        elif name == b"stream.resource.alloca":
            self.allocate(op)
        elif name == b"stream.timepoint.await":
            for operand, result in zip(mlir.operands(op), mlir.results(op)):
                self.root[result] = self.root[operand]
        elif name == b"stream.tensor.export":
            made = mlir.mlirOperationGetResult(op, 0)
            for number, value in enumerate(self.returned):
                if value == made:
                    self.results[number] = self.root[mlir.operands(op)[0]]
        elif name == b"stream.resource.load":
            resource, _, offset = mlir.operands(op)
            result = mlir.mlirOperationGetResult(op, 0)
            at = [self.root[resource], self.of(offset)]
            steps.append(["load", self.variable(result), self.kind(result), at])
        elif name == b"stream.cmd.execute":
            block = mlir.first_block(op) or 0
            for inside, operand in zip(mlir.arguments(block), mlir.operands(op)):
                self.root[inside] = self.root[operand]
            self.commands(block, steps)
        elif name.startswith(b"arith."):
            self.arithmetic(op, name, steps)
        elif name.startswith(b"scf."):
            if name not in _NOTHING:
                self.nested(op, name, steps)
        elif name not in _NOTHING and name != b"util.return":
            raise self.refuse(op)

    def allocate(self, op: int) -> None:
        """Memory: of a result, or in the arena."""
        mlir, result = self.mlir, self.mlir.mlirOperationGetResult(op, 0)
        size = self.number(mlir.operands(op)[0])
        numbers = self.exported.get(result)
        self.root[result] = self.buffer("result", min(numbers), size) if numbers else self.reserve(size)

    def commands(self, block: int, steps: list[Any]) -> None:
        """Those of one `stream.cmd.execute`, in order."""
        mlir = self.mlir
        for op in mlir.operations(block):
            name = mlir.name(op)
            if name in (b"stream.cmd.concurrent", b"stream.cmd.serial"):
                self.commands(mlir.first_block(op) or 0, steps)
            elif name == b"stream.cmd.dispatch":
                steps.append(self.dispatch(op))
            elif name == b"stream.cmd.copy":
                source, _, source_at, target, _, target_at, length = mlir.operands(op)
                to, of = [self.root[target], self.of(target_at)], [self.root[source], self.of(source_at)]
                steps.append(["copy", to, of, self.of(length)])
            elif name == b"stream.cmd.fill":
                target, _, offset, length, pattern = mlir.operands(op)
                to = [self.root[target], self.of(offset)]
                steps.append(["fill", to, self.of(length), self.of(pattern), self.kind(pattern)])
            elif name not in _NOTHING:
                raise self.refuse(op)

    def dispatch(self, op: int) -> list[Any]:
        """A kernel's launch: the kernel, its scalars, its bindings, the user's lines."""
        mlir = self.mlir
        segments = mlir.attribute(op, b"operandSegmentSizes")
        workload, uniform, n = (mlir.mlirDenseI32ArrayGetElement(segments, i) for i in range(3))
        operands = mlir.operands(op)
        entry = mlir.mlirArrayAttrGetElement(mlir.attribute(op, b"entry_points"), 0)
        name = mlir_c.content(mlir.mlirSymbolRefAttrGetLeafReference(entry))
        first = workload + uniform
        offsets, lengths = operands[first + 2 * n : first + 3 * n], operands[first + 3 * n : first + 4 * n]
        bindings = [
            [self.root[x], self.of(a), self.of(length)] for x, a, length in zip(operands[first:], offsets, lengths)
        ]
        pushed = [self.of(x) for x in operands[workload:first]]
        kernel = self.kernels.setdefault(name, len(self.kernels))
        return ["dispatch", kernel, pushed, bindings, self.lines.of_operation(op)]

    def arithmetic(self, op: int, name: bytes, steps: list[Any]) -> None:
        """An operation on scalars."""
        mlir, result = self.mlir, self.mlir.mlirOperationGetResult(op, 0)
        word, operands = name.decode().removeprefix("arith."), mlir.operands(op)
        if name in (b"arith.cmpi", b"arith.cmpf"):
            predicate = mlir.mlirIntegerAttrGetValueInt(mlir.attribute(op, b"predicate"))
            word += " " + (_ORDER if name == b"arith.cmpi" else _FLOAT_ORDER)[predicate]
        elif name not in SCALARS:
            raise self.refuse(op)
        if not all(map(self.is_scalar, (*operands, result))):
            raise self.refuse(op, f"{name.decode()} on values of type {self.kind(operands[-1])}")
        given = [self.of(x) for x in operands]
        steps.append(["let", self.variable(result), self.kind(result), word, given, self.kind(operands[-1])])

    def scalars(self, values: list[int]) -> list[int]:
        """Those that are numbers."""
        return [x for x in values if self.is_scalar(x)]

    def sets(self, targets: list[str], values: list[int]) -> list[Any]:
        """All variables at once."""
        given = [self.of(x) for x in values]
        changed = [(t, v, self.variables[int(t[1:])]) for t, v in zip(targets, given, strict=True) if t != v]
        return [["set", [list(c) for c in changed]]] if changed else []

    def nested(self, op: int, name: bytes, steps: list[Any]) -> None:
        """A loop or a branch. Raises NotExported for one that is not known."""
        mlir = self.mlir
        regions = [mlir.mlirRegionGetFirstBlock(region) for region in mlir.regions(op)]
        results = self.scalars(mlir.results(op))
        if name in (b"scf.if", b"scf.index_switch"):
            chosen = self.of(mlir.operands(op)[0])
            names = [self.variable(r) for r in results]
            parts: list[Any] = []
            for block in regions:
                part: list[Any] = []
                if block:
                    part = self.block(block)
                    end = mlir.operands(mlir.mlirBlockGetTerminator(block))
                    part += self.sets(names, self.scalars(end))
                parts.append(part)
            if name == b"scf.if":
                steps.append(["if", chosen, parts[0], parts[1] if len(parts) > 1 else []])
            else:
                cases = mlir.attribute(op, b"cases")
                numbers = [mlir.mlirDenseI64ArrayGetElement(cases, i) for i in range(len(parts) - 1)]
                steps.append(["switch", chosen, [[n, part] for n, part in zip(numbers, parts[1:])], parts[0]])
            return
        if name == b"scf.for":
            low, high, by, *initial = mlir.operands(op)
            at, *carried = mlir.arguments(regions[0])
            counter, names = self.variable(at), [self.variable(x) for x in self.scalars(carried)]
            steps += self.sets(names, self.scalars(initial))
            body = self.block(regions[0])
            end = mlir.operands(mlir.mlirBlockGetTerminator(regions[0]))
            body += self.sets(names, self.scalars(end))
            order = "ult" if mlir.attribute(op, b"unsignedCmp") else "slt"
            steps.append(["for", counter, self.kind(at), order, self.of(low), self.of(high), self.of(by), body])
            for r, x in zip(results, names, strict=True):
                self.scalar[r] = x
        elif name == b"scf.while":
            names = [self.variable(x) for x in self.scalars(mlir.arguments(regions[0]))]
            steps += self.sets(names, self.scalars(mlir.operands(op)))
            before = self.block(regions[0])
            condition, *passed = mlir.operands(mlir.mlirBlockGetTerminator(regions[0]))
            made = [self.variable(r) for r in results]
            before += self.sets(made, self.scalars(passed))
            for x, variable in zip(self.scalars(mlir.arguments(regions[1])), made, strict=True):
                self.scalar[x] = variable
            after = self.block(regions[1])
            after += self.sets(names, self.scalars(mlir.operands(mlir.mlirBlockGetTerminator(regions[1]))))
            steps.append(["while", before, self.of(condition), after])
        else:
            raise self.refuse(op)
