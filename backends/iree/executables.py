"""The CPU's executables on their way from LLVM's dialect to binaries, in a module of their own.

From translated executables to binaries IREE cleans up the host's part of the module five times, which in a module
without a host's part takes next to nothing. Meanwhile the host's part is converted with what the executables are to
it: names, ordinals and layouts.

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import mlir_c

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes longer to import than all else here
    from collections.abc import Iterator

STORED_SOFTMAX = "a softmax of a value that is stored too is restricted to workgroup distributed contexts"
STORED_REDUCTION = "a reduction is stored by the dispatch that reduces what it is part of"
"""What is wrong with a module's dispatches (`fault`), in words that `service.RETRIES` knows."""
_VISIBILITY = mlir_c.text(b"sym_visibility")
_STORE = b"iree_tensor_ext.dispatch.tensor.store"
_REDUCTION = b"#linalg.iterator_type<reduction>"
MANY = 1000
"""More than the dimensions of any array."""
_NOT_REDUCING = frozenset(b"linalg." + name for name in (b"fill", b"transpose", b"broadcast", b"copy", b"map"))


def fault(mlir: mlir_c.Mlir, module: int) -> str | None:
    """What IREE 3.13's code generation for the CPU gets wrong in one of the dispatches that it has formed.

    A dispatch that stores what its softmax reads: no code is found for it, but only after half of a compile.

    A dispatch that stores a reduction, or what is computed of it, and reduces in its turn what that is part of
    (``s = prod(x, 0)``, ``y = x * s - t``, ``sum(y, 0)``, of which s is stored). What the last reduction reads is computed
    within its loop, for a step at a time; so is s, whole each time, in memory that the turn before has left something in.
    """
    reduction = mlir.mlirAttributeParseGet(mlir.mlirOperationGetContext(module), mlir_c.text(_REDUCTION))
    for executable in mlir.named(mlir.first_block(module), b"flow.executable"):
        for inner in mlir.named(mlir.first_block(executable), b"builtin.module"):
            for function in mlir.named(mlir.first_block(inner), b"func.func"):
                body = list(mlir.operations(mlir.first_block(function)))
                stored = {mlir.mlirOperationGetOperand(op, 0) for op in body if mlir.name(op) == _STORE}
                if any(_reads_stored(mlir, op, stored) for op in body):
                    return STORED_SOFTMAX
                if len(stored) > 1 and _reduces_stored_reduction(mlir, body, stored, reduction):
                    return STORED_REDUCTION
    return None


def _reads_stored(mlir: mlir_c.Mlir, op: int, stored: set[int]) -> bool:
    return mlir.name(op) == b"linalg.softmax" and mlir.mlirOperationGetOperand(op, 0) in stored


def _reduces_stored_reduction(mlir: mlir_c.Mlir, body: list[int], stored: set[int], reduction: int) -> bool:
    of_reduction = set[int]()  # what is computed of a reduction
    of_stored = dict[int, int]()  # what is computed of one that is stored, and of how few dimensions that is
    for op in body:
        results, operands = mlir.results(op), mlir.operands(op)
        loops = _reducing_loops(mlir, op, reduction)
        least = min((of_stored[x] for x in operands if x in of_stored), default=MANY)
        if least < loops:
            return True
        if loops or not of_reduction.isdisjoint(operands):
            of_reduction.update(results)
            for x in results:
                own = mlir.mlirShapedTypeGetRank(mlir.mlirValueGetType(x)) if x in stored else MANY
                if (fewest := min(least, own)) < MANY:
                    of_stored[x] = fewest
    return False


def _reducing_loops(mlir: mlir_c.Mlir, op: int, reduction: int) -> int:
    """The number of a reduction's loops; 0 for all other operations."""
    name = mlir.name(op)
    if name != b"linalg.generic":
        return MANY if name.startswith(b"linalg.") and name not in _NOT_REDUCING else 0
    kinds = mlir.attribute(op, b"iterator_types")
    loops = mlir.mlirArrayAttrGetNumElements(kinds)
    return loops if any(mlir.mlirArrayAttrGetElement(kinds, i) == reduction for i in range(loops)) else 0


def split(mlir: mlir_c.Mlir, module: int) -> int:
    """A new module with copies of the executables and the devices, all public, to which the executables' code moves."""
    beside = mlir.mlirModuleGetOperation(mlir.mlirModuleCreateEmpty(mlir.mlirOperationGetLocation(module)))
    for op in _moving(mlir, module):
        code = [code for variant in _variants(mlir, op) for code in _code(mlir, variant)]
        for its_code in code:
            mlir.mlirOperationRemoveFromParent(its_code)
        copy = mlir.mlirOperationClone(op)
        mlir.mlirOperationRemoveAttributeByName(copy, _VISIBILITY)
        for variant, its_code in zip(_variants(mlir, copy), code, strict=True):
            mlir.insert_last(variant, its_code)
        mlir.mlirBlockAppendOwnedOperation(mlir.first_block(beside), copy)
    return beside


def join(mlir: mlir_c.Mlir, module: int, beside: int) -> None:
    """What the other module holds, instead of what it was made from.

    That are the executables, now binaries, and the devices with the code that finds them, which must come first;
    neither where the module has turned out not to need them.
    """
    private = mlir.mlirStringAttrGet(mlir.mlirOperationGetContext(module), mlir_c.text(b"private"))
    needed = set[bytes]()
    for old in _moving(mlir, module):
        needed.add(mlir.name(old))
        mlir.mlirOperationRemoveFromParent(old)
        mlir.mlirOperationDestroy(old)
    block = mlir.first_block(module)
    first = mlir.mlirBlockGetFirstOperation(block)
    for op in list(mlir.operations(mlir.first_block(beside))):
        name = mlir.name(op)
        if (b"util.global" if name == b"util.initializer" else name) not in needed:
            continue
        mlir.mlirOperationRemoveFromParent(op)
        if name != b"util.initializer":
            mlir.mlirOperationSetAttributeByName(op, _VISIBILITY, private)
        mlir.mlirBlockInsertOwnedOperationBefore(block, first, op)


def _moving(mlir: mlir_c.Mlir, module: int) -> list[int]:
    """The devices' globals, which are known by the names that IREE gives them, and the executables."""
    block = mlir.first_block(module)
    devices = [op for op in mlir.named(block, b"util.global") if _is_device(mlir.symbol(op))]
    return [*devices, *mlir.named(block, b"hal.executable")]


def _is_device(name: bytes) -> bool:
    return name.startswith(b"__device_") and name[len(b"__device_") :].isdigit()


def _variants(mlir: mlir_c.Mlir, op: int) -> list[int]:
    """Those of an executable, one for each target."""
    return (
        list(mlir.named(mlir.first_block(op), b"hal.executable.variant")) if mlir.name(op) == b"hal.executable" else []
    )


def _code(mlir: mlir_c.Mlir, variant: int) -> Iterator[int]:
    return mlir.named(mlir.first_block(variant), b"builtin.module")
