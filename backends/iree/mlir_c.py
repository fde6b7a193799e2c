"""The operations of a compiler's module, through MLIR's C functions.

Imported by the worker, beside which it lies: ctypes only. A handle is a pointer; an operation that was taken out of
its block belongs to the caller.
"""

from __future__ import annotations

import ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes longer to import than all else here
    from collections.abc import Callable, Iterator
    from typing import Any

_p = ctypes.c_void_p

PRE_ORDER = 0
_HOSTS = frozenset((b"util.func", b"util.initializer"))


class Text(ctypes.Structure):
    """MlirStringRef."""

    _fields_ = (("data", ctypes.c_char_p), ("length", ctypes.c_size_t))


VISIT = ctypes.CFUNCTYPE(ctypes.c_int, _p, _p)

# name: (result, arguments), as declared in mlir-c/IR.h and iree/compiler/mlir_interop.h; handles are pointers
SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "ireeCompilerInvocationExportStealModule": (_p, [_p]),
    "ireeCompilerInvocationImportStealModule": (ctypes.c_bool, [_p, _p]),
    "mlirArrayAttrGetElement": (_p, [_p, ctypes.c_ssize_t]),
    "mlirBlockAppendOwnedOperation": (None, [_p, _p]),
    "mlirBlockArgumentGetArgNumber": (ctypes.c_ssize_t, [_p]),
    "mlirBlockArgumentGetOwner": (_p, [_p]),
    "mlirBlockGetArgument": (_p, [_p, ctypes.c_ssize_t]),
    "mlirBlockGetFirstOperation": (_p, [_p]),
    "mlirBlockGetNextInRegion": (_p, [_p]),
    "mlirBlockGetParentOperation": (_p, [_p]),
    "mlirBlockGetTerminator": (_p, [_p]),
    "mlirBlockInsertOwnedOperationBefore": (None, [_p, _p, _p]),
    "mlirDenseI32ArrayGetElement": (ctypes.c_int32, [_p, ctypes.c_ssize_t]),
    "mlirIdentifierStr": (Text, [_p]),
    "mlirIntegerAttrGetValueInt": (ctypes.c_int64, [_p]),
    "mlirModuleCreateEmpty": (_p, [_p]),
    "mlirModuleGetOperation": (_p, [_p]),
    "mlirOpOperandGetNextUse": (_p, [_p]),
    "mlirOpOperandGetOperandNumber": (ctypes.c_uint, [_p]),
    "mlirOpOperandGetOwner": (_p, [_p]),
    "mlirOpResultGetOwner": (_p, [_p]),
    "mlirOpResultGetResultNumber": (ctypes.c_ssize_t, [_p]),
    "mlirOperationClone": (_p, [_p]),
    "mlirOperationDestroy": (None, [_p]),
    "mlirOperationGetAttributeByName": (_p, [_p, Text]),
    "mlirOperationGetBlock": (_p, [_p]),
    "mlirOperationGetContext": (_p, [_p]),
    "mlirOperationGetLocation": (_p, [_p]),
    "mlirOperationGetName": (_p, [_p]),
    "mlirOperationGetNextInBlock": (_p, [_p]),
    "mlirOperationGetNumOperands": (ctypes.c_ssize_t, [_p]),
    "mlirOperationGetNumRegions": (ctypes.c_ssize_t, [_p]),
    "mlirOperationGetNumResults": (ctypes.c_ssize_t, [_p]),
    "mlirOperationGetOperand": (_p, [_p, ctypes.c_ssize_t]),
    "mlirOperationGetRegion": (_p, [_p, ctypes.c_ssize_t]),
    "mlirOperationGetResult": (_p, [_p, ctypes.c_ssize_t]),
    "mlirOperationRemoveAttributeByName": (ctypes.c_bool, [_p, Text]),
    "mlirOperationRemoveDiscardableAttributeByName": (ctypes.c_bool, [_p, Text]),
    "mlirOperationRemoveFromParent": (None, [_p]),
    "mlirOperationSetAttributeByName": (None, [_p, Text, _p]),
    "mlirOperationSetDiscardableAttributeByName": (None, [_p, Text, _p]),
    "mlirOperationSetOperand": (None, [_p, ctypes.c_ssize_t, _p]),
    "mlirOperationWalk": (None, [_p, VISIT, _p, ctypes.c_int]),
    "mlirOperationVerify": (ctypes.c_bool, [_p]),
    "mlirRegionGetFirstBlock": (_p, [_p]),
    "mlirStringAttrGet": (_p, [_p, Text]),
    "mlirStringAttrGetValue": (Text, [_p]),
    "mlirSymbolRefAttrGetRootReference": (Text, [_p]),
    "mlirTypeEqual": (ctypes.c_bool, [_p, _p]),
    "mlirValueGetFirstUse": (_p, [_p]),
    "mlirValueGetType": (_p, [_p]),
    "mlirValueIsABlockArgument": (ctypes.c_bool, [_p]),
    "mlirValueReplaceAllUsesOfWith": (None, [_p, _p]),
}


def text(value: bytes) -> Text:
    """A string as MLIR takes it."""
    return Text(value, len(value))


def content(text: Text) -> bytes:
    """A string that MLIR gave."""
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
        return content(self.mlirIdentifierStr(self.mlirOperationGetName(op)))

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

    def insert_last(self, parent: int, op: int) -> None:
        """Put an operation that has no place into another one's first block, before its terminator."""
        block = self.first_block(parent)
        *_, end = self.operations(block)
        self.mlirBlockInsertOwnedOperationBefore(block, end, op)

    def in_hosts(self, module: int, names: frozenset[bytes]) -> list[int]:
        """The operations of these names in the host's functions and initialisers, in order."""
        found: list[int] = []

        def visit(op: int, _: int | None) -> int:
            if self.name(op) in names:
                found.append(op)
            return 0  # go on

        for op in self.operations(self.first_block(module)):
            if self.name(op) in _HOSTS:
                self.mlirOperationWalk(op, VISIT(visit), None, PRE_ORDER)
        return found

    def uses(self, value: int) -> list[tuple[int, int]]:
        """The operations that use a value, and the number of the operand each."""
        found: list[tuple[int, int]] = []
        use = self.mlirValueGetFirstUse(value)
        while use:
            found.append((self.mlirOpOperandGetOwner(use), self.mlirOpOperandGetOperandNumber(use)))
            use = self.mlirOpOperandGetNextUse(use)
        return found

    def separate_uses(self, module: int, name: bytes) -> None:
        """Give each use of the operations of this name, in the host's part, an operation of its own.

        For operations of one result whose operands are no results of such.
        """
        for op in self.in_hosts(module, frozenset((name,))):
            for owner, number in self.uses(self.mlirOperationGetResult(op, 0))[1:]:
                copy = self.mlirOperationClone(op)
                self.mlirBlockInsertOwnedOperationBefore(self.mlirOperationGetBlock(op), op, copy)
                self.mlirOperationSetOperand(owner, number, self.mlirOperationGetResult(copy, 0))

    def erase(self, module: int, name: bytes) -> None:
        """All operations of this name, which have no results, in the host's part."""
        for op in self.in_hosts(module, frozenset((name,))):
            self.mlirOperationRemoveFromParent(op)
            self.mlirOperationDestroy(op)

    def attribute(self, op: int, name: bytes) -> int | None:
        """One of the operation's attributes."""
        return self.mlirOperationGetAttributeByName(op, text(name))

    def symbol(self, op: int) -> bytes:
        """The name by which an operation is referred to."""
        return content(self.mlirStringAttrGetValue(self.attribute(op, b"sym_name")))

    def named(self, block: int | None, name: bytes) -> Iterator[int]:
        """Those of a block that have this name."""
        return (op for op in self.operations(block) if self.name(op) == name)
