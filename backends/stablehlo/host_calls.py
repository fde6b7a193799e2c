"""Calls of Python functions from compiled code: LAPACK, callbacks.

A call is an import ``func.func private @host.NAME`` and a ``func.call``; the lowered module lists its `HostCall`s, and
the runtime implements them by `quire.runtime.host_functions`. Calls run in the order of the program's text, also in
loops and branches, and one whose results are unused still happens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import iree.compiler.ir as mlir

from quire.ir import dtypes
from quire.ir.avals import ShapedArray

from ..host_call import HostCall
from . import types
from .lowering import Ctx

HOST_MODULE = "host"
"""The name of the module in which the functions are looked up."""


def emit_host_call(
    ctx: Ctx,
    function: Callable[..., Any],
    operands: Sequence[Any],
    out_avals: Sequence[ShapedArray],
    *,
    name: str | None = None,
    share: bool = False,
    borrow: bool = False,
    fills: bool = False,
) -> list[Any]:
    """Emit a call of a Python function; returns its results as MLIR values.

    Args:
        function: takes NumPy arrays of the operands' dtypes, returns one array for each of `out_avals` (one array, a
            sequence of them, or None for no results), of exactly these shapes and dtypes.
        operands: MLIR values.
        name: what the import is called, for readers of the text; the function's name by default.
        share: use one import for all calls of this function with these types. Not for functions that the module must
            tell apart by position.
        borrow: the function takes views of the program's own memory, which it must not keep or change.
        fills: the function takes, after its arguments, the arrays that are to hold the results, and writes them.

    Raises:
        UnsupportedError: the target cannot call Python.
    """
    if not ctx.target.host_functions:
        raise ctx.unsupported("calls of Python functions", "leave it out, or use the cpu target")
    state = ctx.module
    in_avals = tuple(aval_of_value(x) for x in operands)
    outs = tuple(a.strong() for a in out_avals)
    symbol = _shared(state.host_calls, function, in_avals, outs) if share else None
    if symbol is None:
        symbol = f"{_identifier(name or getattr(function, '__name__', 'call'))}_{len(state.host_calls)}"
        state.host_calls.append(HostCall(symbol, function, in_avals, outs, borrow, fills))
        _declare(state.module, symbol, in_avals, outs)
    callee = mlir.FlatSymbolRefAttr.get(f"{HOST_MODULE}.{symbol}")
    results = [types.aval_type(a) for a in outs]
    call = mlir.Operation.create("func.call", results=results, operands=list(operands), attributes={"callee": callee})
    return list(call.results)


def declare_host_call(
    state: Any,
    function: Callable[..., Any],
    in_avals: Sequence[ShapedArray],
    out_avals: Sequence[ShapedArray],
    name: str,
) -> str:
    """Declare a Python function that a module calls; returns the symbol to call it by."""
    symbol = f"{_identifier(name)}_{len(state.host_calls)}"
    state.host_calls.append(HostCall(symbol, function, tuple(in_avals), tuple(out_avals)))
    _declare(state.module, symbol, in_avals, out_avals)
    return f"{HOST_MODULE}.{symbol}"


def aval_of_value(x: Any) -> ShapedArray:
    """The aval of an MLIR value of ranked tensor type. Raises TypeError for elements that no dtype has."""
    tensor = mlir.RankedTensorType(x.type)
    element = tensor.element_type
    for dtype in dtypes.ALL:
        if types.element_type(dtype) == element:
            return ShapedArray(tuple(tensor.shape), dtype)
    raise TypeError(f"MLIR type {tensor} has no dtype")


def _shared(
    calls: Sequence[HostCall], function: Callable[..., Any], ins: tuple[ShapedArray, ...], outs: tuple[ShapedArray, ...]
) -> str | None:
    for call in calls:
        if call.function == function and call.in_avals == ins and call.out_avals == outs:
            return call.symbol
    return None


def _declare(module: Any, symbol: str, ins: Sequence[ShapedArray], outs: Sequence[ShapedArray]) -> None:
    function_type = mlir.FunctionType.get([types.aval_type(a) for a in ins], [types.aval_type(a) for a in outs])
    with mlir.InsertionPoint.at_block_begin(module.body):
        mlir.Operation.create(
            "func.func", regions=1,
            attributes={
                "sym_name": mlir.StringAttr.get(f"{HOST_MODULE}.{symbol}"),
                "function_type": mlir.TypeAttr.get(function_type),
                "sym_visibility": mlir.StringAttr.get("private"),
            },
        )  # fmt: skip


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name).strip("_") or "call"
