"""The bodies of hand-formed kernels, out of a module while the compiler works on the host's part of it.

Most of IREE's passes up to its stream phase are for the host's functions, but walk the whole module: kernels are the
most of it, and are not looked at before the operands of dispatches are packed. With their bodies put aside these
phases take a quarter of the time for a training step.

What a kernel computes is then unknown to the compiler, which would take kernels of one signature for one: each gets a
mark. Nothing is evaluated ahead of time (targets.COMMON_FLAGS), which would need the bodies.

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

    Args:
        module: its operation.

    Attributes:
        nothing_else: whether the module has nothing to compute but by its kernels.
    """

    def __init__(self, mlir: mlir_c.Mlir, module: int) -> None:
        self.mlir, self.module = mlir, module
        self.held: list[list[int]] = []
        """The operations of each function by its mark, without the terminator."""
        executables = list(self.executables())
        self.nothing_else = bool(executables) and self.only_kernels()
        for executable in executables:
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

    def only_kernels(self) -> bool:
        """Whether the host's functions hold operations of ONLY_KERNELS only."""
        mlir, others = self.mlir, list[bytes]()

        def visit(op: int, _: int | None) -> int:
            name = mlir.name(op)
            if name in ONLY_KERNELS:
                return 0  # go on
            others.append(name)
            return 1  # that will do

        for op in mlir.operations(mlir.first_block(self.module)):
            if mlir.name(op) != b"stream.executable" and not others:
                mlir.mlirOperationWalk(op, mlir_c.VISIT(visit), None, mlir_c.PRE_ORDER)
        return not others
