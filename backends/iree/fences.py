"""Programs on the calling thread without fences.

IREE's device that runs on the calling thread (`local-sync`) has done what it is asked for when it returns: it allocates, executes
and frees at once, and gives the error of what failed. Fences say what is done already, and making two of them and waiting
for one takes a sixth of the call of a small program. So there are none: their places hold null, which means no fence, and what was
waited for is well. A program made so reads what is not written yet on a device of other threads, and is not loaded there.

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import mlir_c

_MADE = frozenset((b"hal.fence.create", b"hal.fence.join"))
_AWAITED = frozenset((b"hal.fence.await",))
_CHECKED = frozenset((b"util.status.check_ok",))


def leave_out(mlir: mlir_c.Mlir, module: int) -> None:
    """Replace the fences of the host's part by null, and take away the waits for them."""
    waits = {mlir.mlirOperationGetResult(op, 0): op for op in mlir.in_hosts(module, _AWAITED)}
    for op in mlir.in_hosts(module, _CHECKED):
        if mlir.mlirOperationGetOperand(op, 0) in waits:
            mlir.take_away(op)
    for result, op in waits.items():
        _replace(mlir, op, result, b"arith.constant", b"0 : i32")
    for op in mlir.in_hosts(module, _MADE):
        _replace(mlir, op, mlir.mlirOperationGetResult(op, 0), b"util.null")


def _replace(mlir: mlir_c.Mlir, op: int, result: int, name: bytes, value: bytes = b"") -> None:
    """A constant for the result of an operation."""
    context = mlir.mlirLocationGetContext(mlir.mlirOperationGetLocation(op))
    attributes: dict[bytes, int | None] = {}
    if value:
        attributes[b"value"] = mlir.mlirAttributeParseGet(context, mlir_c.text(value))
    made = mlir.create(name, [], [mlir.mlirValueGetType(result)], attributes, before=op)
    mlir.mlirValueReplaceAllUsesOfWith(result, mlir.mlirOperationGetResult(made, 0))
    mlir.take_away(op)
