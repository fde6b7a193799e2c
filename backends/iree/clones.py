"""What is computed of no tensor is computed of a stored one where IREE 3.13 would clone it without end.

IREE fuses an operation that reads no tensor (one of counting numbers and constants) into each of its users, and these read no
tensor then. Of a chain in which each value is used twice there are 2^n copies of the first: the random bits of a constant
key, 20 rounds, do not end. A chain that begins with a tensor in memory is one dispatch.

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import mlir_c
from shape_orders import FUNCTIONS, SHAPES

_IOTA, _CONSTANT = b"stablehlo.iota", b"stablehlo.constant"
_OPERATIONS = (
    FUNCTIONS
    | SHAPES
    | frozenset(
        b"stablehlo." + name
        for name in (
            b"add", b"and", b"atan2", b"broadcast_in_dim", b"clamp", b"compare", b"complex", b"concatenate", b"constant",
            b"divide", b"iota", b"maximum", b"minimum", b"multiply", b"or", b"power", b"remainder", b"reverse", b"select",
            b"shift_left", b"shift_right_arithmetic", b"shift_right_logical", b"slice", b"subtract", b"xor",
        )
    )
)  # fmt: skip
"""What becomes a loop without a reduction, or a constant where it is of constants."""

_CLONES = 20_000
"""So many operations may be cloned, counted along each path: that takes IREE some 50 ms."""

_USED = 32
"""A value that is computed so often is part of what grows."""

_SMALL = 64
"""Counting numbers up to here are a constant, which takes no dispatch."""


def limit(mlir: mlir_c.Mlir, module: int) -> None:
    """Store the counting numbers of which more would be cloned than `_CLONES`."""
    found = mlir.within(module, _OPERATIONS)
    counts = [op for op in found if mlir.name(op) == _IOTA]
    if not counts:
        return
    rootless: dict[int, list[int]] = {}  # the operations whose results each takes
    for op in found:
        owners = [_owner(mlir, x) for x in mlir.operands(op)]
        if all(x in rootless for x in owners):
            rootless[op] = owners
    copies: dict[int, int] = {}
    for op in reversed(rootless):
        if rootless[op]:
            users = [user for user, _ in mlir.uses(mlir.mlirOperationGetResult(op, 0))]
            copies[op] = sum(copies.get(user, 1) for user in users)
    if sum(copies.values()) <= _CLONES:
        return
    stored = {op for op, n in copies.items() if n > _USED}
    for op in reversed(rootless):
        if op in stored:
            stored.update(rootless[op])
    for op in counts:
        if op in stored:
            _store(mlir, op)


def _owner(mlir: mlir_c.Mlir, value: int) -> int:
    """The operation that gives a value; 0 for an argument of a block."""
    return 0 if mlir.mlirValueIsABlockArgument(value) else mlir.mlirOpResultGetOwner(value)


def _store(mlir: mlir_c.Mlir, op: int) -> None:
    """Give the readers of counting numbers a tensor in memory."""
    out = mlir.mlirOperationGetResult(op, 0)
    kind = mlir.mlirValueGetType(out)
    uses = mlir.uses(out)
    after = mlir.mlirOperationGetNextInBlock(op)
    element = mlir.mlirShapedTypeGetElementType(kind)
    width = mlir.mlirIntegerTypeGetWidth(element) // 8 if mlir.mlirTypeIsAInteger(element) else 0
    size = mlir.mlirShapedTypeGetDimSize(kind, 0)
    if width and size <= _SMALL and mlir.mlirShapedTypeGetRank(kind) == 1:
        data = b"".join(k.to_bytes(width, "little") for k in range(size))
        value = mlir.mlirDenseElementsAttrRawBufferGet(kind, len(data), data)
        stored = mlir.create(_CONSTANT, [], [kind], {b"value": value}, before=after)
    else:
        stored = mlir.create(b"stablehlo.optimization_barrier", [out], [kind], {}, before=after)
    for user, number in uses:
        mlir.mlirOperationSetOperand(user, number, mlir.mlirOperationGetResult(stored, 0))
