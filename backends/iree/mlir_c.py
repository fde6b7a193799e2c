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


class NamedAttribute(ctypes.Structure):
    """MlirNamedAttribute."""

    _fields_ = (("name", _p), ("attribute", _p))


class OperationState(ctypes.Structure):
    """MlirOperationState: what an operation is made of."""

    _fields_ = (
        ("name", Text),
        ("location", _p),
        ("result_count", ctypes.c_ssize_t),
        ("results", _p),
        ("operand_count", ctypes.c_ssize_t),
        ("operands", _p),
        ("region_count", ctypes.c_ssize_t),
        ("regions", _p),
        ("successor_count", ctypes.c_ssize_t),
        ("successors", _p),
        ("attribute_count", ctypes.c_ssize_t),
        ("attributes", _p),
        ("infers_types", ctypes.c_bool),
    )


VISIT = ctypes.CFUNCTYPE(ctypes.c_int, _p, _p)
PRINT = ctypes.CFUNCTYPE(None, Text, _p)

# name: (result, arguments), as declared in mlir-c/IR.h and iree/compiler/mlir_interop.h; handles are pointers
SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "ireeCompilerInvocationExportStealModule": (_p, [_p]),
    "ireeCompilerInvocationImportStealModule": (ctypes.c_bool, [_p, _p]),
    "mlirArrayAttrGetElement": (_p, [_p, ctypes.c_ssize_t]),
    "mlirAffineDimExprGetPosition": (ctypes.c_ssize_t, [_p]),
    "mlirAffineExprIsADim": (ctypes.c_bool, [_p]),
    "mlirAffineMapAttrGetValue": (_p, [_p]),
    "mlirAffineMapGetResult": (_p, [_p, ctypes.c_ssize_t]),
    "mlirAttributeGetType": (_p, [_p]),
    "mlirAttributeIsAInteger": (ctypes.c_bool, [_p]),
    "mlirAttributeParseGet": (_p, [_p, Text]),
    "mlirAttributePrint": (None, [_p, _p, _p]),
    "mlirArrayAttrGetNumElements": (ctypes.c_ssize_t, [_p]),
    "mlirArrayAttrGet": (_p, [_p, ctypes.c_ssize_t, _p]),
    "mlirFlatSymbolRefAttrGetValue": (Text, [_p]),
    "mlirFloatTypeGetWidth": (ctypes.c_uint, [_p]),
    "mlirSymbolRefAttrGetLeafReference": (Text, [_p]),
    "mlirTypeAttrGet": (_p, [_p]),
    "mlirTypeIsATensor": (ctypes.c_bool, [_p]),
    "mlirTypeAttrGetValue": (_p, [_p]),
    "mlirBlockAddArgument": (_p, [_p, _p, _p]),
    "mlirBlockAppendOwnedOperation": (None, [_p, _p]),
    "mlirBlockArgumentGetArgNumber": (ctypes.c_ssize_t, [_p]),
    "mlirBlockArgumentGetOwner": (_p, [_p]),
    "mlirBlockCreate": (_p, [ctypes.c_ssize_t, _p, _p]),
    "mlirBlockEraseArgument": (None, [_p, ctypes.c_uint]),
    "mlirBlockGetArgument": (_p, [_p, ctypes.c_ssize_t]),
    "mlirBlockGetFirstOperation": (_p, [_p]),
    "mlirBlockGetNextInRegion": (_p, [_p]),
    "mlirBlockGetNumArguments": (ctypes.c_ssize_t, [_p]),
    "mlirBlockGetParentOperation": (_p, [_p]),
    "mlirBlockGetTerminator": (_p, [_p]),
    "mlirBlockInsertOwnedOperationBefore": (None, [_p, _p, _p]),
    "mlirDenseArrayGetNumElements": (ctypes.c_ssize_t, [_p]),
    "mlirDenseElementsAttrRawBufferGet": (_p, [_p, ctypes.c_size_t, _p]),
    "mlirDenseI32ArrayGet": (_p, [_p, ctypes.c_ssize_t, _p]),
    "mlirDenseI32ArrayGetElement": (ctypes.c_int32, [_p, ctypes.c_ssize_t]),
    "mlirDenseI64ArrayGetElement": (ctypes.c_int64, [_p, ctypes.c_ssize_t]),
    "mlirIdentifierGet": (_p, [_p, Text]),
    "mlirIdentifierStr": (Text, [_p]),
    "mlirIndexTypeGet": (_p, [_p]),
    "mlirIntegerAttrGet": (_p, [_p, ctypes.c_int64]),
    "mlirIntegerAttrGetValueInt": (ctypes.c_int64, [_p]),
    "mlirIntegerTypeGetWidth": (ctypes.c_uint, [_p]),
    "mlirLinalgGetIndexingMapsAttribute": (_p, [_p]),
    "mlirLocationGetContext": (_p, [_p]),
    "mlirModuleCreateEmpty": (_p, [_p]),
    "mlirModuleCreateParse": (_p, [_p, Text]),
    "mlirModuleDestroy": (None, [_p]),
    "mlirModuleGetOperation": (_p, [_p]),
    "mlirOpOperandGetNextUse": (_p, [_p]),
    "mlirOpOperandGetOperandNumber": (ctypes.c_uint, [_p]),
    "mlirOpOperandGetOwner": (_p, [_p]),
    "mlirOpResultGetOwner": (_p, [_p]),
    "mlirOpResultGetResultNumber": (ctypes.c_ssize_t, [_p]),
    "mlirOperationClone": (_p, [_p]),
    "mlirOperationCreate": (_p, [ctypes.POINTER(OperationState)]),
    "mlirOperationDestroy": (None, [_p]),
    "mlirOperationGetAttribute": (NamedAttribute, [_p, ctypes.c_ssize_t]),
    "mlirOperationGetAttributeByName": (_p, [_p, Text]),
    "mlirOperationGetBlock": (_p, [_p]),
    "mlirOperationGetContext": (_p, [_p]),
    "mlirOperationGetLocation": (_p, [_p]),
    "mlirOperationGetName": (_p, [_p]),
    "mlirOperationGetNextInBlock": (_p, [_p]),
    "mlirOperationGetNumAttributes": (ctypes.c_ssize_t, [_p]),
    "mlirOperationGetNumOperands": (ctypes.c_ssize_t, [_p]),
    "mlirOperationGetNumRegions": (ctypes.c_ssize_t, [_p]),
    "mlirOperationGetNumResults": (ctypes.c_ssize_t, [_p]),
    "mlirOperationGetNumSuccessors": (ctypes.c_ssize_t, [_p]),
    "mlirOperationGetOperand": (_p, [_p, ctypes.c_ssize_t]),
    "mlirOperationGetParentOperation": (_p, [_p]),
    "mlirOperationGetRegion": (_p, [_p, ctypes.c_ssize_t]),
    "mlirOperationGetResult": (_p, [_p, ctypes.c_ssize_t]),
    "mlirOperationGetSuccessor": (_p, [_p, ctypes.c_ssize_t]),
    "mlirOperationMoveBefore": (None, [_p, _p]),
    "mlirOperationRemoveAttributeByName": (ctypes.c_bool, [_p, Text]),
    "mlirOperationRemoveDiscardableAttributeByName": (ctypes.c_bool, [_p, Text]),
    "mlirOperationRemoveFromParent": (None, [_p]),
    "mlirOperationSetAttributeByName": (None, [_p, Text, _p]),
    "mlirOperationSetDiscardableAttributeByName": (None, [_p, Text, _p]),
    "mlirOperationSetOperand": (None, [_p, ctypes.c_ssize_t, _p]),
    "mlirOperationStateAddAttributes": (None, [ctypes.POINTER(OperationState), ctypes.c_ssize_t, _p]),
    "mlirOperationStateAddOperands": (None, [ctypes.POINTER(OperationState), ctypes.c_ssize_t, _p]),
    "mlirOperationStateAddOwnedRegions": (None, [ctypes.POINTER(OperationState), ctypes.c_ssize_t, _p]),
    "mlirOperationStateAddResults": (None, [ctypes.POINTER(OperationState), ctypes.c_ssize_t, _p]),
    "mlirOperationVerify": (ctypes.c_bool, [_p]),
    "mlirOperationWalk": (None, [_p, VISIT, _p, ctypes.c_int]),
    "mlirRankedTensorTypeGet": (_p, [ctypes.c_ssize_t, _p, _p, _p]),
    "mlirRegionAppendOwnedBlock": (None, [_p, _p]),
    "mlirRegionCreate": (_p, []),
    "mlirRegionDestroy": (None, [_p]),
    "mlirRegionGetFirstBlock": (_p, [_p]),
    "mlirRegionTakeBody": (None, [_p, _p]),
    "mlirShapedTypeGetDimSize": (ctypes.c_int64, [_p, ctypes.c_ssize_t]),
    "mlirShapedTypeGetElementType": (_p, [_p]),
    "mlirShapedTypeGetRank": (ctypes.c_int64, [_p]),
    "mlirStringAttrGet": (_p, [_p, Text]),
    "mlirStringAttrGetValue": (Text, [_p]),
    "mlirSymbolRefAttrGetRootReference": (Text, [_p]),
    "mlirTypeEqual": (ctypes.c_bool, [_p, _p]),
    "mlirTypeIsAIndex": (ctypes.c_bool, [_p]),
    "mlirTypeIsAInteger": (ctypes.c_bool, [_p]),
    "mlirTypeIsAVector": (ctypes.c_bool, [_p]),
    "mlirTypeParseGet": (_p, [_p, Text]),
    "mlirTypePrint": (None, [_p, _p, _p]),
    "mlirValueGetFirstUse": (_p, [_p]),
    "mlirValueGetType": (_p, [_p]),
    "mlirValueIsABlockArgument": (ctypes.c_bool, [_p]),
    "mlirValueReplaceAllUsesOfWith": (None, [_p, _p]),
    "mlirValueSetType": (None, [_p, _p]),
}


def text(value: bytes) -> Text:
    """A string as MLIR takes it."""
    return Text(value, len(value))


def content(text: Text) -> bytes:
    """A string that MLIR gave."""
    return ctypes.string_at(text.data, text.length)


class Mlir:
    """MLIR's C functions of a library, by their names, and what is often asked of operations."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        self.texts: dict[bytes, Text] = {}
        self.new_context()

    def new_context(self) -> None:
        """Forget the identifiers known, which are the context's: before operations of another one are looked at."""
        self.names: dict[int, bytes] = {}
        self.identifiers: dict[bytes, int] = {}

    def name(self, op: int) -> bytes:
        """The operation's name, dialect included."""
        identifier = self.mlirOperationGetName(op)
        known = self.names.get(identifier)
        if known is None:
            known = self.names[identifier] = content(self.mlirIdentifierStr(identifier))
        return known

    def identifier(self, context: int, name: bytes) -> int:
        """A name as the context has it."""
        known = self.identifiers.get(name)
        if known is None:
            known = self.identifiers[name] = self.mlirIdentifierGet(context, text(name))
        return known

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

    def within(self, op: int, names: frozenset[bytes]) -> list[int]:
        """An operation and those in its regions that have these names, in order."""
        found: list[int] = []

        def visit(inner: int, _: int | None) -> int:
            if self.name(inner) in names:
                found.append(inner)
            return 0  # go on

        self.mlirOperationWalk(op, VISIT(visit), None, PRE_ORDER)
        return found

    def in_hosts(self, module: int, names: frozenset[bytes]) -> list[int]:
        """The operations of these names in the host's functions and initialisers, in order."""
        hosts = (op for op in self.operations(self.first_block(module)) if self.name(op) in _HOSTS)
        return [found for host in hosts for found in self.within(host, names)]

    def create(
        self,
        name: bytes,
        operands: list[int],
        types: list[int],
        attributes: dict[bytes, int | None],
        *,
        before: int = 0,
        last_in: int | None = None,
        location: int = 0,
        regions: list[int] | None = None,
    ) -> int:
        """A new operation, before another one or last in a block.

        Args:
            name: with its dialect.
            types: those of its results.
            location: that of `before` where it is 0.
            regions: they become the operation's.

        Raises:
            ValueError: the compiler does not make it: its dialect is not loaded, or its attributes are not right.
        """
        location = location or self.mlirOperationGetLocation(before)
        context = self.mlirLocationGetContext(location)
        named = [NamedAttribute(self.identifier(context, key), value) for key, value in attributes.items() if value]
        state = OperationState(text(name), location)
        # What is added so is memory of the library's own, which it frees.
        self.mlirOperationStateAddResults(state, len(types), (_p * len(types))(*types))
        self.mlirOperationStateAddOperands(state, len(operands), (_p * len(operands))(*operands))
        self.mlirOperationStateAddAttributes(state, len(named), (NamedAttribute * len(named))(*named))
        if regions:
            self.mlirOperationStateAddOwnedRegions(state, len(regions), (_p * len(regions))(*regions))
        op = self.mlirOperationCreate(state)
        if not op:
            raise ValueError(f"the compiler does not make a {name.decode()}")
        if before:
            self.mlirBlockInsertOwnedOperationBefore(self.mlirOperationGetBlock(before), before, op)
        elif last_in:
            self.mlirBlockAppendOwnedOperation(last_in, op)
        return op

    def operands(self, op: int) -> list[int]:
        """All of an operation's."""
        get = self.mlirOperationGetOperand
        return [get(op, i) for i in range(self.mlirOperationGetNumOperands(op))]

    def results(self, op: int) -> list[int]:
        """All of an operation's."""
        return [self.mlirOperationGetResult(op, i) for i in range(self.mlirOperationGetNumResults(op))]

    def read_by(self, op: int) -> list[int]:
        """The values that an operation reads, those that are read in its regions among them."""
        read: list[int] = []

        def visit(inner: int, _: int | None) -> int:
            read.extend(self.operands(inner))
            return 0  # go on

        self.mlirOperationWalk(op, VISIT(visit), None, PRE_ORDER)
        return read

    def arguments(self, block: int) -> list[int]:
        """All of a block's."""
        return [self.mlirBlockGetArgument(block, i) for i in range(self.mlirBlockGetNumArguments(block))]

    def regions(self, op: int) -> list[int]:
        """All of an operation's."""
        return [self.mlirOperationGetRegion(op, i) for i in range(self.mlirOperationGetNumRegions(op))]

    def uses(self, value: int) -> list[tuple[int, int]]:
        """The operations that use a value, and the number of the operand each."""
        found: list[tuple[int, int]] = []
        use = self.mlirValueGetFirstUse(value)
        while use:
            found.append((self.mlirOpOperandGetOwner(use), self.mlirOpOperandGetOperandNumber(use)))
            use = self.mlirOpOperandGetNextUse(use)
        return found

    def takes_strides(self, op: int) -> bool:
        """Whether an operation is a slice whose elements have others between them."""
        if self.name(op) != b"tensor.extract_slice":
            return False
        strides = self.attribute(op, b"static_strides")
        return any(
            self.mlirDenseI64ArrayGetElement(strides, i) != 1 for i in range(self.mlirDenseArrayGetNumElements(strides))
        )

    def keep_apart(self, module: int) -> None:
        """Put a barrier behind each result of the host's dispatches that have several and take no tensor.

        IREE 3.13 takes such a dispatch for a kind of splat: for a copy of one of its results it makes the dispatch anew, and
        then gives the copy's readers the first result (`PropagateCloneableOps` in stream's folders).
        """
        for op in self.in_hosts(module, frozenset((b"flow.dispatch",))):
            results = self.results(op)
            takes_tensors = any(self.mlirTypeIsATensor(self.mlirValueGetType(x)) for x in self.operands(op))
            if len(results) < 2 or takes_tensors:
                continue
            for result in results:
                uses = self.uses(result)
                if uses:
                    kind = self.mlirValueGetType(result)
                    after = self.mlirOperationGetNextInBlock(op)
                    barrier = self.create(b"util.optimization_barrier", [result], [kind], {}, before=after)
                    for owner, number in uses:
                        self.mlirOperationSetOperand(owner, number, self.mlirOperationGetResult(barrier, 0))

    def printed(self, show: Callable[..., None], what: int | None) -> bytes:
        """The text of an attribute or a type, by the function that prints such."""
        parts: list[bytes] = []
        show(what, PRINT(lambda part, _: parts.append(content(part))), None)
        return b"".join(parts)

    def erase(self, module: int, name: bytes) -> None:
        """All operations of this name, which have no results, in the host's part."""
        for op in self.in_hosts(module, frozenset((name,))):
            self.take_away(op)

    def take_away(self, op: int) -> None:
        """Remove and destroy an operation of whose results nothing is used."""
        self.mlirOperationRemoveFromParent(op)
        self.mlirOperationDestroy(op)

    def attribute(self, op: int, name: bytes) -> int | None:
        """One of the operation's attributes."""
        known = self.texts.get(name)
        if known is None:
            known = self.texts[name] = text(name)
        return self.mlirOperationGetAttributeByName(op, known)

    def symbol(self, op: int) -> bytes:
        """The name by which an operation is referred to."""
        return content(self.mlirStringAttrGetValue(self.attribute(op, b"sym_name")))

    def named(self, block: int | None, name: bytes) -> Iterator[int]:
        """Those of a block that have this name."""
        return (op for op in self.operations(block) if self.name(op) == name)
