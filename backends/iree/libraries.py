"""The CPU's kernels of one program in several libraries, on which the compiler works at once.

Half of the time that a program of many kernels takes to compile is LLVM's, which works on one library in one thread. So the
executables are linked in groups of about equal work. IREE would link them to one where they become binaries: each group does so
in a module, and all but the first in a session, of its own.

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import _thread

import mlir_c
from compiler import Compiler, CompilerError
from session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes longer to import than all else here
    from collections.abc import Callable, Iterator

WORTH = 400
"""A library for fewer operations of MLIR costs more, with a session and the linker, than it saves."""

_EXECUTABLE = b"hal.executable"
_NAME = mlir_c.text(b"sym_name")


def groups(mlir: mlir_c.Mlir, module: int, most: int) -> list[list[int]]:
    """The executables in at most so many groups of about equal numbers of operations, each worth a library."""
    found = list(mlir.named(mlir.first_block(module), _EXECUTABLE))
    sizes = {op: _size(mlir, op) for op in found} if most > 1 else {}
    count = max(1, min(most, len(found), sum(sizes.values()) // WORTH))
    parts = [list[int]() for _ in range(count)]
    for op in sorted(sizes, key=lambda op: -sizes[op]):  # the largest first, each to the smallest group
        min(parts, key=lambda part: sum(sizes[x] for x in part)).append(op)
    return [sorted(part, key=found.index) for part in parts] if sizes else [found]


def _size(mlir: mlir_c.Mlir, op: int) -> int:
    count = 0

    def visit(_: int, __: int | None) -> int:
        nonlocal count
        count += 1
        return 0  # go on

    mlir.mlirOperationWalk(op, mlir_c.VISIT(visit), None, mlir_c.PRE_ORDER)
    return count


def link(mlir: mlir_c.Mlir, module: int, parts: list[list[int]], linked: Callable[[], bool]) -> Iterator[bool]:
    """Link each group to one executable, by `linked`, which links those of the module. Step by step.

    The groups' executables have different names: IREE makes these of the module's, which is another one meanwhile.
    """
    block, context = mlir.first_block(module), mlir.mlirOperationGetContext(module)
    name = mlir.mlirOperationGetAttributeByName(module, _NAME)
    for op in (op for part in parts for op in part):
        mlir.mlirOperationRemoveFromParent(op)
    done: list[int] = []
    for number, part in enumerate(parts):
        _put_first(mlir, block, part)
        text = mlir_c.text(b"part_%d" % number)
        mlir.mlirOperationSetAttributeByName(module, _NAME, mlir.mlirStringAttrGet(context, text))
        yield linked()
        for op in list(mlir.named(block, _EXECUTABLE)):
            mlir.mlirOperationRemoveFromParent(op)
            done.append(op)
    _put_first(mlir, block, done)
    if name:
        mlir.mlirOperationSetAttributeByName(module, _NAME, name)
    else:
        mlir.mlirOperationRemoveAttributeByName(module, _NAME)


def _put_first(mlir: mlir_c.Mlir, block: int | None, ops: list[int]) -> None:
    first = mlir.mlirBlockGetFirstOperation(block)
    for op in ops:
        mlir.mlirBlockInsertOwnedOperationBefore(block, first, op)


class Library:
    """A thread that makes the executables of a module binaries, in a session of its own.

    Args:
        module: as bytecode.
        flags: the session's options.
    """

    def __init__(self, compiler: Compiler, module: bytes, flags: tuple[str, ...]) -> None:
        self.compiler, self.module, self.flags = compiler, module, flags
        self.diagnostics: list[tuple[str, str]] = []
        self.made: bytes | None = None
        self.ended = _thread.allocate_lock()
        self.ended.acquire()
        _thread.start_new_thread(self.work, ())

    def work(self) -> None:
        """What the thread does."""
        try:
            session = Session(self.compiler, self.module, self.flags)
            self.diagnostics = session.diagnostics
            try:
                parsed = session.parse()
                session.verify(False)
                if parsed and session.run("hal", "executable-targets"):
                    self.made = session.bytecode()
            finally:
                session.close()
        except CompilerError as error:
            self.diagnostics.append(("error", str(error)))
        finally:
            self.ended.release()

    def result(self) -> bytes | None:
        """The module with binaries, as bytecode; None where that failed. Waits for the thread; may be called again."""
        with self.ended:
            return self.made
