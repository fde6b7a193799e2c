"""Modules of StableHLO, given as text, within the module that is lowered: functions are taken over under new names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import iree.compiler.ir as mlir

from quire.ir.avals import ShapedArray

from . import hlo, types
from .host_calls import HOST_MODULE, declare_host_call
from .lowering import Ctx


def insert_module(
    ctx: Ctx, operands: Sequence[Any], name: str, text: str,
    callbacks: Sequence[tuple[str, Callable[..., Any], tuple[ShapedArray, ...], tuple[ShapedArray, ...]]],
    result_avals: Sequence[ShapedArray],
) -> list[Any]:  # fmt: skip
    """Call the function `main` of a module. `callbacks` are the host functions that it declares, with their types.

    Raises UnsupportedError where there are some and the target cannot call Python.
    """
    if callbacks and not ctx.target.host_functions:
        raise ctx.unsupported("calls of Python functions", "leave it out, or use the cpu target")
    parsed = mlir.Module.parse(text)
    state = ctx.module
    clean = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    prefix = f"{clean}_{len(state.inserted)}"
    state.inserted.append(prefix)
    symbols: dict[str, str] = {}
    for symbol, function, in_avals, out_avals in callbacks:
        symbols[f"{HOST_MODULE}.{symbol}"] = declare_host_call(state, function, in_avals, out_avals, symbol)
    functions = [op.operation for op in parsed.body.operations]
    own = [f for f in functions if _symbol(f) not in symbols]
    for f in own:
        symbols[_symbol(f)] = f"{prefix}_{_symbol(f)}"
    for f in own:
        for op in _within(f):
            if op.name == "func.call":
                callee = symbols[mlir.FlatSymbolRefAttr(op.attributes["callee"]).value]
                op.attributes["callee"] = mlir.FlatSymbolRefAttr.get(callee)
        new = f.clone(mlir.InsertionPoint(state.module.body))
        new.attributes["sym_name"] = mlir.StringAttr.get(symbols[_symbol(f)])
        new.attributes["sym_visibility"] = mlir.StringAttr.get("private")
    main = mlir.FlatSymbolRefAttr.get(symbols["main"])
    return list(hlo.op("func.call", operands, [types.aval_type(a) for a in result_avals], callee=main).results)


def _symbol(function: Any) -> str:
    return mlir.StringAttr(function.attributes["sym_name"]).value


def _within(op: Any) -> Iterator[Any]:
    for region in op.regions:
        for block in region:
            for inner in block:
                yield inner.operation
                yield from _within(inner.operation)


__all__ = ["insert_module"]
