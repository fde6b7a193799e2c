"""Memory and order of a module's host functions, by a plan of each.

Between pipelines.VALUES and pipelines.COMMANDS each function is taken as a program (host_programs.py), has a plan made and
proved (backends/plan), and the plan written in its place (plan_writing.py).

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import mlir_c
from host_programs import HostFunction, HostTypes
from host_programs import NotPlanned as NotPlanned
from plan import checking, making
from plan.checking import PlanError as PlanError
from plan.plan import text
from plan.program import walk
from plan_writing import Writer
from user_lines import UserLines

_FUNCTIONS = frozenset((b"util.func", b"util.initializer"))


def plan_all(
    mlir: mlir_c.Mlir, module: int, alignment: int = 64, *, on_host: bool = False, shown: bool = True
) -> list[str]:
    """Plan, prove and rewrite all functions of the host.

    Gives the text of each plan, with the user's lines, if it is to be shown. With `on_host` Python's functions reach the
    program's memory, and are lent it.

    Raises:
        NotPlanned: an operation is not known, or a size is not constant.
        checking.PlanError: a plan is not proved; a mistake of this compiler.
    """
    types = HostTypes(mlir, module, on_host)
    types.branches_of_selects(module)
    out: list[str] = []
    for op in list(mlir.operations(mlir.first_block(module))):
        if mlir.name(op) in _FUNCTIONS and mlir.first_block(op):
            if any(types.of_resource(op_inner) for op_inner in mlir.operations(mlir.first_block(op))):
                out.append(_plan(mlir, types, op, alignment, shown))
    types.type_globals(module)
    return out if shown else []


def several_devices(mlir: mlir_c.Mlir, module: int) -> bool:
    """Whether a module is for more than one device, which the plan does not know yet."""
    device = mlir.mlirTypeParseGet(mlir.mlirOperationGetContext(module), mlir_c.text(b"!hal.device"))
    kinds = [
        mlir.mlirTypeAttrGetValue(mlir.attribute(op, b"type"))
        for op in mlir.named(mlir.first_block(module), b"util.global")
    ]
    return kinds.count(device) > 1


def _plan(mlir: mlir_c.Mlir, types: HostTypes, function: int, alignment: int, shown: bool) -> str:
    taken = HostFunction(mlir, types, function)
    made = making.make(taken.program, alignment)
    checking.check(taken.program, made)
    if shown:
        lines = UserLines(mlir)
        for op in walk(taken.program.region):
            op.where = lines.of_operation(op.handle)
    written = text(made) if shown else ""
    Writer(mlir, types, taken, made).write()
    return written
