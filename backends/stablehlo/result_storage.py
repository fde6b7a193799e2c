"""Memory of results that the caller brings: further arguments of `main`, into which its results are written.

What IREE allocates for results comes from a pool of the device, and local-task's loses memory: of the slabs of 64 MB in
which results were freed between two calls it looks into the last one only (seen in 3.13), so that a process that holds
some results and drops them grows without bound. Memory of the device's allocator is bounded, counted and can be trimmed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import iree.compiler.ir as mlir

from quire.ir.avals import ShapedArray

from .hlo import base_of

_IN_PLACE = frozenset(("stablehlo.dynamic_update_slice", "stablehlo.scatter", "stablehlo.while"))


def store_results(function: Any, avals: Sequence[ShapedArray], at_least: int) -> tuple[ShapedArray, ...]:
    """Give a function an argument for the memory of each result of `at_least` bytes; returns the types of these.

    Not for what was made in place, or by a function of the host: that has memory already, and IREE would copy it.
    """
    block = function.regions[0].blocks[0]
    operations = block.operations
    values = list(operations[len(operations) - 1].operands)
    chosen = [k for k, (x, a) in enumerate(zip(values, avals)) if a.nbytes >= at_least and not _in_place(x)]
    if not chosen:
        return ()
    given = [x.type for x in block.arguments]
    index = mlir.IndexType.get()
    marks = [mlir.DictAttr.get({"iree.abi.output": mlir.IntegerAttr.get(index, k)}) for k in chosen]
    known = list(function.attributes["arg_attrs"]) if "arg_attrs" in function.attributes else []
    known = known or [mlir.DictAttr.get({}) for _ in given]
    function.attributes["arg_attrs"] = mlir.ArrayAttr.get([*known, *marks])
    types = mlir.FunctionType.get([*given, *(values[k].type for k in chosen)], [x.type for x in values])
    function.attributes["function_type"] = mlir.TypeAttr.get(types)
    for k in chosen:
        block.add_argument(values[k].type, mlir.Location.unknown())
    return tuple(avals[k] for k in chosen)


def _in_place(x: Any) -> bool:
    """Whether a value has the memory of an operand of what makes it."""
    x = base_of(x)
    owner = x.owner
    if isinstance(owner, mlir.Block):
        return True
    if owner.name == "flow.dispatch":
        return mlir.IntegerAttr(owner.attributes["tied_operands"][mlir.OpResult(x).result_number]).value >= 0
    if owner.name == "func.call":  # what a function of the host gives has memory of the device's allocator
        return mlir.FlatSymbolRefAttr(owner.attributes["callee"]).value.startswith("host.")
    return owner.name in _IN_PLACE
