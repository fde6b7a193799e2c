"""The bodies of hand-formed kernels, out of a module while the compiler works on the host's part of it.

Most of IREE's passes up to its stream phase are for the host's functions, but walk the whole module: kernels are the
most of it, and are not looked at before the operands of dispatches are packed. With their bodies put aside these
phases take a quarter of the time for a training step.

What a kernel computes is then unknown to the compiler, which matters in two places. Kernels of one signature would be
taken for one: each gets a mark. And a dispatch of constants would be evaluated ahead of time, by an empty kernel:
such a dispatch disappears from the module, and `Bodies.missed` tells it.

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import mlir_c

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes longer to import than all else here
    from collections.abc import Iterator

MARK = b"quire.body"

ONLY_KERNELS = frozenset(
    (b"func.func", b"func.return", b"flow.dispatch", b"stablehlo.constant", b"arith.constant", b"stablehlo.reshape")
)
"""The operations of a module of which the compiler has to form no dispatch."""


class Bodies:
    """The kernels' bodies of a module: taken out when it is made, put back by `put_back`.

    Kernels that are dispatched with constants only keep theirs.

    Args:
        module: its operation.

    Attributes:
        nothing_else: whether the module has nothing to compute but by its kernels, of something that is no constant.
    """

    def __init__(self, mlir: mlir_c.Mlir, module: int) -> None:
        self.mlir, self.module = mlir, module
        self.held: list[list[int]] = []
        """The operations of each function by its mark, without the terminator."""
        times, constant, names = self.survey()
        self.nothing_else = bool(times) and not constant and names <= ONLY_KERNELS
        self.dispatched = {name: times[name] for name in times if name not in constant}
        for executable in self.executables():
            if mlir.symbol(executable) not in constant:
                for function in self.functions(executable):
                    self.take_out(function)

    def executables(self) -> Iterator[int]:
        """The module's kernels."""
        return self.mlir.named(self.mlir.first_block(self.module), b"stream.executable")

    def functions(self, executable: int) -> Iterator[int]:
        """Those of a kernel."""
        mlir = self.mlir
        for inner in mlir.named(mlir.first_block(executable), b"builtin.module"):
            yield from mlir.named(mlir.first_block(inner), b"func.func")

    def take_out(self, function: int) -> None:
        """The body of a function of one block, all but its terminator."""
        mlir = self.mlir
        block = mlir.first_block(function)
        if not block or mlir.mlirBlockGetNextInRegion(block):
            return
        context = mlir.mlirOperationGetContext(function)
        number = mlir.mlirStringAttrGet(context, mlir_c.text(b"%d" % len(self.held)))
        mlir.mlirOperationSetDiscardableAttributeByName(function, mlir_c.text(MARK), number)
        body = list(mlir.operations(block))[:-1]
        for op in body:
            mlir.mlirOperationRemoveFromParent(op)
        self.held.append(body)

    def put_back(self) -> None:
        """All of them, where they were. Those of executables that are no more in the module stay out."""
        mlir = self.mlir
        for executable in self.executables() if self.held else ():
            for function in self.functions(executable):
                mark = mlir.attribute(function, MARK)
                if mark:
                    self.put_into(function, self.held[int(mlir_c.content(mlir.mlirStringAttrGetValue(mark)))])
        self.held = []

    def put_into(self, function: int, body: list[int]) -> None:
        """The opposite of `take_out`."""
        mlir = self.mlir
        block = mlir.first_block(function)
        end = mlir.mlirBlockGetFirstOperation(block)
        for op in body:
            mlir.mlirBlockInsertOwnedOperationBefore(block, end, op)
        mlir.mlirOperationRemoveDiscardableAttributeByName(function, mlir_c.text(MARK))

    def survey(self) -> tuple[dict[bytes, int], set[bytes], set[bytes]]:
        """How many times the host dispatches each executable, which of them with constants only, its operations' names.

        Constants are what depends on no argument of a function or of a block. For a module without kernels: nothing.
        """
        mlir, times, constant, names = self.mlir, dict[bytes, int](), set[bytes](), set[bytes]()
        variable = set[int]()

        def visit(op: int, _: int | None) -> int:
            name = mlir.name(op)
            names.add(name)
            operands = [mlir.mlirOperationGetOperand(op, i) for i in range(mlir.mlirOperationGetNumOperands(op))]
            depends = any(value in variable or mlir.mlirValueIsABlockArgument(value) for value in operands)
            if depends or mlir.mlirOperationGetNumRegions(op):
                variable.update(mlir.mlirOperationGetResult(op, i) for i in range(mlir.mlirOperationGetNumResults(op)))
            if name == b"flow.dispatch":
                targets = mlir.attribute(op, b"entry_points")
                root = mlir_c.content(mlir.mlirSymbolRefAttrGetRootReference(mlir.mlirArrayAttrGetElement(targets, 0)))
                times[root] = times.get(root, 0) + 1
                if not depends:
                    constant.add(root)
            return 0  # go on

        if next(self.executables(), None):
            for op in mlir.operations(mlir.first_block(self.module)):
                if mlir.name(op) != b"stream.executable":
                    mlir.mlirOperationWalk(op, mlir_c.VISIT(visit), None, mlir_c.PRE_ORDER)
        return times, constant, names

    def missed(self) -> bool:
        """Whether a dispatch of a kernel without its body is gone: evaluated, maybe, as if it did nothing.

        Then the module must be compiled once more with all bodies in place.
        """
        if not self.held:
            return False
        now, _, _ = self.survey()
        return any(now.get(name, 0) != times for name, times in self.dispatched.items())
