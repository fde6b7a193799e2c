"""The CPU's executables on their way from LLVM's dialect to binaries, in modules of their own.

From translated executables to binaries IREE cleans up the host's part of the module five times, which in a module
without a host's part takes next to nothing. Meanwhile the host's part is converted with what the executables are to
it: names, ordinals and layouts.

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import mlir_c
from compiler import CompilerError

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes longer to import than all else here
    from collections.abc import Iterator

_VISIBILITY = mlir_c.text(b"sym_visibility")


def split(mlir: mlir_c.Mlir, module: int) -> list[int]:
    """New modules with copies of the executables, one in each, all public, to which the executables' code moves.

    The first has copies of the devices too. If there are no executables, it has nothing else.
    """
    devices, found = _devices(mlir, module), _executables(mlir, module)
    return [
        _beside(mlir, module, [*(devices if number == 0 else []), *found[number : number + 1]])
        for number in range(max(1, len(found)))
    ]


def _beside(mlir: mlir_c.Mlir, module: int, moving: list[int]) -> int:
    beside = mlir.mlirModuleGetOperation(mlir.mlirModuleCreateEmpty(mlir.mlirOperationGetLocation(module)))
    for op in moving:
        code = [code for variant in _variants(mlir, op) for code in _code(mlir, variant)]
        for its_code in code:
            mlir.mlirOperationRemoveFromParent(its_code)
        copy = mlir.mlirOperationClone(op)
        mlir.mlirOperationRemoveAttributeByName(copy, _VISIBILITY)
        for variant, its_code in zip(_variants(mlir, copy), code, strict=True):
            mlir.insert_last(variant, its_code)
        mlir.mlirBlockAppendOwnedOperation(mlir.first_block(beside), copy)
    return beside


def read(mlir: mlir_c.Mlir, module: int, bytecode: bytes) -> int:
    """A module that another session has written, in the context of this one; whoever asked for it destroys it.

    Raises:
        CompilerError: it cannot be read.
    """
    context = mlir.mlirOperationGetContext(module)
    made = mlir.mlirModuleCreateParse(context, mlir_c.text(bytecode))
    if not made:
        raise CompilerError("the compiler cannot read what it has written")
    return made


def join(mlir: mlir_c.Mlir, module: int, besides: list[int]) -> None:
    """What the other modules hold, instead of what they were made from.

    That are the executables, now binaries, and the devices with the code that finds them, which must come first;
    neither where the module has turned out not to need them.
    """
    private = mlir.mlirStringAttrGet(mlir.mlirOperationGetContext(module), mlir_c.text(b"private"))
    needed = set[bytes]()
    for old in [*_devices(mlir, module), *_executables(mlir, module)]:
        needed.add(mlir.name(old))
        mlir.mlirOperationRemoveFromParent(old)
        mlir.mlirOperationDestroy(old)
    block = mlir.first_block(module)
    first = mlir.mlirBlockGetFirstOperation(block)
    for op in [op for beside in besides for op in mlir.operations(mlir.first_block(beside))]:
        name = mlir.name(op)
        if (b"util.global" if name == b"util.initializer" else name) not in needed:
            continue
        mlir.mlirOperationRemoveFromParent(op)
        if name != b"util.initializer":
            mlir.mlirOperationSetAttributeByName(op, _VISIBILITY, private)
        mlir.mlirBlockInsertOwnedOperationBefore(block, first, op)


def _devices(mlir: mlir_c.Mlir, module: int) -> list[int]:
    """The devices' globals, which are known by the names that IREE gives them."""
    return [op for op in mlir.named(mlir.first_block(module), b"util.global") if _is_device(mlir.symbol(op))]


def _executables(mlir: mlir_c.Mlir, module: int) -> list[int]:
    return list(mlir.named(mlir.first_block(module), b"hal.executable"))


def _is_device(name: bytes) -> bool:
    return name.startswith(b"__device_") and name[len(b"__device_") :].isdigit()


def _variants(mlir: mlir_c.Mlir, op: int) -> list[int]:
    """Those of an executable, one for each target."""
    return (
        list(mlir.named(mlir.first_block(op), b"hal.executable.variant")) if mlir.name(op) == b"hal.executable" else []
    )


def _code(mlir: mlir_c.Mlir, variant: int) -> Iterator[int]:
    return mlir.named(mlir.first_block(variant), b"builtin.module")
