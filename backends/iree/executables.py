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

_VISIBILITY = mlir_c.text(b"sym_visibility")


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
