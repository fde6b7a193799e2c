"""Copies of what is written in place: those that a program needs, and those that it can do without.

IREE's stream phase has value semantics and copies what is written in place. Its passes leave out copies that matter
(`iree-stream-elide-async-copies`), or forget one where a single operation reads a value and writes it
(`iree-stream-materialize-copy-on-write`). Here both are done over, by rules short enough to prove.

Where an operation writes in place, it is tied to an operand. First each such operand gets a copy, unless that is its only
use and it has memory of its own. Then for each copy there are three questions:

1. Is it only read, and is what was copied read by all its other uses too? Then it may be the original.
2. Is it the only use of the original, which has memory of its own? Then the original ends here, and its memory may be
   the copy's.
3. Or are the other uses of such an original readers without whose results the one operation that writes the copy cannot
   begin? Then the original has ended when it does.

A value has memory of its own if an operation has made it anew, in the same block, or has written it in place of one that
has, or if it is an argument that the caller gave away. A value carried by a `scf.for` has, if its initial value has and
goes nowhere else, and if so has what the body yields for it, which goes nowhere else either. Of nothing else is it assumed.

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import mlir_c

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes longer to import than all else here
    from collections.abc import Iterator

_CLONE = b"stream.async.clone"
_DISPATCH = b"stream.async.dispatch"
_COPIES = frozenset((_CLONE, b"stream.async.transfer"))
_ANEW = _COPIES | {b"stream.async.splat", b"stream.async.constant", b"stream.async.slice", b"stream.async.alloca"}
"""Operations whose result is never the memory of an operand."""
_INTO_TARGET = frozenset((b"stream.async.update", b"stream.async.copy", b"stream.async.fill"))
"""Operations that write into their first operand."""
_READERS = frozenset((_DISPATCH, b"stream.async.slice", b"stream.async.load", *_COPIES, *_INTO_TARGET))
"""Operations of which each operand that is not tied is only read."""


def put_in(mlir: mlir_c.Mlir, module: int) -> int:
    """Give what is written in place, and is used elsewhere too or is another's memory, a copy to write; how many."""
    copies, added = _Copies(mlir), 0
    for op in mlir.in_hosts(module, _INTO_TARGET | {_DISPATCH}):
        for number, size in copies.written(op):
            value = mlir.mlirOperationGetOperand(op, number)
            if not copies.own(value, mlir.mlirOperationGetBlock(op)):
                kind, affinity = mlir.mlirValueGetType(value), mlir.attribute(op, b"affinity")
                copy = mlir.create_before(op, _CLONE, [value, size, size], kind, affinity=affinity)
                mlir.mlirOperationSetOperand(op, number, copy)
                added += 1
    return added


def leave_out(mlir: mlir_c.Mlir, module: int) -> int:
    """Take away the copies of the host's part that the rules above make needless; how many."""
    return _Copies(mlir).leave_out(module)


class _Copies:
    def __init__(self, mlir: mlir_c.Mlir) -> None:
        self.mlir = mlir
        self.carried: dict[int, bool] = {}
        """Whether a block's argument has memory of its own; False while it is being found out."""

    def leave_out(self, module: int) -> int:
        mlir, left_out = self.mlir, 0
        for op in mlir.in_hosts(module, _COPIES):
            x, y = mlir.mlirOperationGetOperand(op, 0), mlir.mlirOperationGetResult(op, 0)
            if not mlir.mlirTypeEqual(mlir.mlirValueGetType(x), mlir.mlirValueGetType(y)):
                continue
            others = [use for use in mlir.uses(x) if use[0] != op]
            only_read = all(self.reads(*use) for use in (*mlir.uses(y), *others))
            if only_read or self.own(x, mlir.mlirOperationGetBlock(op), op) and self.ended(y, others):
                mlir.mlirValueReplaceAllUsesOfWith(y, x)
                mlir.mlirOperationRemoveFromParent(op)
                mlir.mlirOperationDestroy(op)
                left_out += 1
        return left_out

    def reads(self, op: int, number: int) -> bool:
        """Whether an operation only reads this operand."""
        name = self.mlir.name(op)
        if name not in _READERS:
            return False
        return number not in [written for written, _ in self.written(op)]

    def written(self, op: int) -> Iterator[tuple[int, int]]:
        """The operands that an operation writes, by number, and the size of each in bytes, a value."""
        mlir = self.mlir
        if mlir.name(op) in _INTO_TARGET:
            yield 0, mlir.mlirOperationGetOperand(op, 1)
        elif mlir.name(op) == _DISPATCH:
            results = mlir.mlirOperationGetNumResults(op)
            sizes = mlir.mlirOperationGetNumOperands(op) - results  # those of the results come last
            for result in range(results):
                number = self.tied(op, result)
                if number is not None:
                    yield number, mlir.mlirOperationGetOperand(op, sizes + result)

    def ended(self, y: int, readers: list[tuple[int, int]]) -> bool:
        """Whether what writes y can begin only when these uses have been served."""
        mlir = self.mlir
        uses = mlir.uses(y)
        if not readers:
            return True
        if len(uses) != 1 or not all(self.reads(*use) for use in readers):
            return False
        block = mlir.mlirOperationGetBlock(uses[0][0])
        waiting = {op for op, _ in readers}
        pending, seen = [uses[0][0]], set[int]()
        while pending and waiting:
            op = pending.pop()
            for i in range(mlir.mlirOperationGetNumOperands(op)):
                value = mlir.mlirOperationGetOperand(op, i)
                if mlir.mlirValueIsABlockArgument(value):
                    continue
                made_by = mlir.mlirOpResultGetOwner(value)
                if made_by not in seen and mlir.mlirOperationGetBlock(made_by) == block:
                    seen.add(made_by)
                    waiting.discard(made_by)
                    pending.append(made_by)
        return not waiting

    def own(self, x: int, block: int, copy: int = 0) -> bool:
        """Whether a value of this block has memory of its own, and no use but one: or any, if one is the copy."""
        mlir = self.mlir
        while True:
            uses = mlir.uses(x)
            if len(uses) != 1 and not any(op == copy for op, _ in uses):
                return False
            if mlir.mlirValueIsABlockArgument(x):
                return mlir.mlirBlockArgumentGetOwner(x) == block and self.carried_own(x, block)
            op = mlir.mlirOpResultGetOwner(x)
            if mlir.mlirOperationGetBlock(op) != block:
                return False
            name = mlir.name(op)
            if name in _ANEW:
                return True
            if name in _INTO_TARGET or name == b"stream.async.cast":
                x = mlir.mlirOperationGetOperand(op, 0)
            elif name == _DISPATCH:
                tied = self.tied(op, mlir.mlirOpResultGetResultNumber(x))
                if tied is None:
                    return True
                x = mlir.mlirOperationGetOperand(op, tied)
            elif name == b"scf.for" and (body := mlir.first_block(op)):
                return self.carried_own(mlir.mlirBlockGetArgument(body, 1 + mlir.mlirOpResultGetResultNumber(x)), body)
            else:
                return name == b"stream.tensor.import" and bool(mlir.attribute(op, b"consume"))

    def tied(self, dispatch: int, result: int) -> int | None:
        """The number of the operand that a dispatch writes for one of its results, None where that is new memory."""
        mlir = self.mlir
        ties = mlir.attribute(dispatch, b"tied_operands")
        index = mlir.mlirIntegerAttrGetValueInt(mlir.mlirArrayAttrGetElement(ties, result)) if ties else -1
        if index < 0:
            return None
        workload = mlir.mlirDenseI32ArrayGetElement(mlir.attribute(dispatch, b"operandSegmentSizes"), 0)
        return workload + index

    def carried_own(self, x: int, block: int) -> bool:
        """Whether what a `scf.for` carries as this argument of its body always has memory of its own."""
        if x not in self.carried:
            self.carried[x] = False
            mlir = self.mlir
            loop = mlir.mlirBlockGetParentOperation(block)
            number = mlir.mlirBlockArgumentGetArgNumber(x) - 1  # the first argument counts
            if mlir.name(loop) == b"scf.for" and number >= 0:
                initial = mlir.mlirOperationGetOperand(loop, 3 + number)  # after both bounds and the step
                next_one = mlir.mlirOperationGetOperand(mlir.mlirBlockGetTerminator(block), number)
                self.carried[x] = self.own(initial, mlir.mlirOperationGetBlock(loop)) and self.passed_on(
                    next_one, x, block
                )
        return self.carried[x]

    def passed_on(self, value: int, x: int, block: int) -> bool:
        """Whether a value that the body yields for the argument x has memory of its own, if x has."""
        self.carried[x] = True
        found = self.own(value, block)
        self.carried[x] = False
        return found
