"""The bodies of hand-formed kernels, out of a module while the compiler works on the host's part of it.

Most of IREE's passes up to its stream phase are for the host's functions, but walk the whole module: kernels are the
most of it, and are not looked at before the operands of dispatches are packed. With their bodies put aside these
phases take a quarter of the time for a training step.

What a kernel computes is then unknown to the compiler, which matters in two places. Kernels of one signature would be
taken for one: each gets a mark. And a dispatch of constants would be evaluated ahead of time, by an empty kernel:
such a dispatch disappears from the module, and `Bodies.missed` tells it.

Imported by the worker, beside which it lies: ctypes only. The functions are those of mlir-c/IR.h.
"""

from __future__ import annotations

import ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes longer to import than all else here
    from collections.abc import Callable, Iterator
    from typing import Any

_p = ctypes.c_void_p

MARK = b"quire.body"


class _Text(ctypes.Structure):
    """MlirStringRef."""

    _fields_ = (("data", ctypes.c_char_p), ("length", ctypes.c_size_t))


_VISIT = ctypes.CFUNCTYPE(ctypes.c_int, _p, _p)

# name: (result, arguments), as declared in mlir-c/IR.h and iree/compiler/mlir_interop.h; handles are pointers
SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "ireeCompilerInvocationExportStealModule": (_p, [_p]),
    "ireeCompilerInvocationImportStealModule": (ctypes.c_bool, [_p, _p]),
    "mlirArrayAttrGetElement": (_p, [_p, ctypes.c_ssize_t]),
    "mlirBlockGetFirstOperation": (_p, [_p]),
    "mlirBlockGetNextInRegion": (_p, [_p]),
    "mlirBlockInsertOwnedOperationBefore": (None, [_p, _p, _p]),
    "mlirIdentifierStr": (_Text, [_p]),
    "mlirOperationGetAttributeByName": (_p, [_p, _Text]),
    "mlirOperationGetContext": (_p, [_p]),
    "mlirOperationGetName": (_p, [_p]),
    "mlirOperationGetNextInBlock": (_p, [_p]),
    "mlirOperationGetRegion": (_p, [_p, ctypes.c_ssize_t]),
    "mlirOperationRemoveDiscardableAttributeByName": (ctypes.c_bool, [_p, _Text]),
    "mlirOperationRemoveFromParent": (None, [_p]),
    "mlirOperationSetDiscardableAttributeByName": (None, [_p, _Text, _p]),
    "mlirOperationWalk": (None, [_p, _VISIT, _p, ctypes.c_int]),
    "mlirRegionGetFirstBlock": (_p, [_p]),
    "mlirStringAttrGet": (_p, [_p, _Text]),
    "mlirStringAttrGetValue": (_Text, [_p]),
    "mlirSymbolRefAttrGetRootReference": (_Text, [_p]),
}


def _text(value: bytes) -> _Text:
    return _Text(value, len(value))


def _bytes(text: _Text) -> bytes:
    return ctypes.string_at(text.data, text.length)


class Mlir:
    """MLIR's C functions of a library, by their names."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.functions: dict[str, Callable[..., Any]] = {}
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            self.functions[name] = function

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            return self.functions[name]
        except KeyError:
            raise AttributeError(name) from None

    def name(self, op: int) -> bytes:
        """The operation's name, dialect included."""
        return _bytes(self.mlirIdentifierStr(self.mlirOperationGetName(op)))

    def first_block(self, op: int) -> int | None:
        """The entry block of the operation's first region; None for a declaration."""
        return self.mlirRegionGetFirstBlock(self.mlirOperationGetRegion(op, 0))

    def operations(self, block: int | None) -> Iterator[int]:
        """Those of a block, in order; the one last given may be taken out."""
        op = self.mlirBlockGetFirstOperation(block) if block else None
        while op:
            after = self.mlirOperationGetNextInBlock(op)
            yield op
            op = after

    def named(self, block: int | None, name: bytes) -> Iterator[int]:
        """Those of a block that have this name."""
        return (op for op in self.operations(block) if self.name(op) == name)


class Bodies:
    """The kernels' bodies of one invocation's module: taken out when it is made, put back by `put_back`."""

    def __init__(self, mlir: Mlir, invocation: int) -> None:
        self.mlir = mlir
        self.held: list[list[int]] = []
        """The operations of each function by its mark, without the terminator."""
        self.module = mlir.ireeCompilerInvocationExportStealModule(invocation)
        functions = list(self.functions())
        self.dispatched = self.dispatches() if functions else {}
        for function in functions:
            self.take_out(function)
        mlir.ireeCompilerInvocationImportStealModule(invocation, self.module)

    def functions(self) -> Iterator[int]:
        """Those of the module's executables."""
        mlir = self.mlir
        for executable in mlir.named(mlir.first_block(self.module), b"stream.executable"):
            for inner in mlir.named(mlir.first_block(executable), b"builtin.module"):
                yield from mlir.named(mlir.first_block(inner), b"func.func")

    def take_out(self, function: int) -> None:
        """The body of a function of one block, all but its terminator."""
        mlir = self.mlir
        block = mlir.first_block(function)
        if not block or mlir.mlirBlockGetNextInRegion(block):
            return
        context = mlir.mlirOperationGetContext(function)
        number = mlir.mlirStringAttrGet(context, _text(b"%d" % len(self.held)))
        mlir.mlirOperationSetDiscardableAttributeByName(function, _text(MARK), number)
        body = list(mlir.operations(block))[:-1]
        for op in body:
            mlir.mlirOperationRemoveFromParent(op)
        self.held.append(body)

    def put_back(self) -> None:
        """All of them, where they were. Those of executables that are no more in the module stay out."""
        mlir = self.mlir
        for function in self.functions() if self.held else ():
            mark = mlir.mlirOperationGetAttributeByName(function, _text(MARK))
            if not mark:
                continue
            block = mlir.first_block(function)
            end = mlir.mlirBlockGetFirstOperation(block)
            for op in self.held[int(_bytes(mlir.mlirStringAttrGetValue(mark)))]:
                mlir.mlirBlockInsertOwnedOperationBefore(block, end, op)
            mlir.mlirOperationRemoveDiscardableAttributeByName(function, _text(MARK))
        self.held = []

    def dispatches(self) -> dict[bytes, int]:
        """How many times the module dispatches each executable."""
        mlir, found = self.mlir, dict[bytes, int]()

        def visit(op: int, _: int | None) -> int:
            if mlir.name(op) == b"flow.dispatch":
                targets = mlir.mlirOperationGetAttributeByName(op, _text(b"entry_points"))
                root = _bytes(mlir.mlirSymbolRefAttrGetRootReference(mlir.mlirArrayAttrGetElement(targets, 0)))
                found[root] = found.get(root, 0) + 1
            return 0  # go on

        for op in mlir.operations(mlir.first_block(self.module)):
            if mlir.name(op) != b"stream.executable":
                mlir.mlirOperationWalk(op, _VISIT(visit), None, 0)
        return found

    def missed(self) -> bool:
        """Whether a dispatch of a kernel without its body is gone: evaluated, maybe, as if it did nothing.

        Then the module must be compiled once more with all bodies in place.
        """
        if not self.held:
            return False
        now = self.dispatches()
        return any(now.get(name, 0) != times for name, times in self.dispatched.items())
