"""A module as text with the location of each operation, which IREE's own printing leaves out.

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import ctypes

import mlir_c

_p = ctypes.c_void_p
_SINK = ctypes.CFUNCTYPE(None, mlir_c.Text, _p)
MOST_ELEMENTS = 64
"""Constants of more elements are left out: a weight as text would be most of the module."""

# name: (result, arguments), as declared in mlir-c/IR.h
_SIGNATURES = {
    "mlirOpPrintingFlagsCreate": (_p, []),
    "mlirOpPrintingFlagsDestroy": (None, [_p]),
    "mlirOpPrintingFlagsElideLargeElementsAttrs": (None, [_p, ctypes.c_ssize_t]),
    "mlirOpPrintingFlagsEnableDebugInfo": (None, [_p, ctypes.c_bool, ctypes.c_bool]),
    "mlirOpPrintingFlagsUseLocalScope": (None, [_p]),
    "mlirOperationPrintWithFlags": (None, [_p, _p, _SINK, _p]),
}


def with_locations(mlir: mlir_c.Mlir, module: int) -> bytes:
    """The text of a module; each operation's line ends in its location, written out."""
    for name, (result, arguments) in _SIGNATURES.items():
        if not hasattr(mlir, name):
            function = getattr(mlir.library, name)
            function.restype, function.argtypes = result, arguments
            setattr(mlir, name, function)
    parts: list[bytes] = []
    flags = mlir.mlirOpPrintingFlagsCreate()
    try:
        mlir.mlirOpPrintingFlagsEnableDebugInfo(flags, True, False)
        mlir.mlirOpPrintingFlagsUseLocalScope(flags)
        mlir.mlirOpPrintingFlagsElideLargeElementsAttrs(flags, MOST_ELEMENTS)
        sink = _SINK(lambda text, _: parts.append(mlir_c.content(text)))
        mlir.mlirOperationPrintWithFlags(module, flags, sink, None)
    finally:
        mlir.mlirOpPrintingFlagsDestroy(flags)
    return b"".join(parts)
