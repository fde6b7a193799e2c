"""libIREECompiler through ctypes: its embedding interface (`iree/compiler/embedding_api.h`) and MLIR's C interface.

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import ctypes

import mlir_c

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes longer to import than all else here
    from typing import Any

_p = ctypes.c_void_p
DIAGNOSTIC = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t, _p)
SEVERITIES = ("note", "warning", "error", "remark")

# name: (result, arguments), as declared in iree/compiler/embedding_api.h
SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "GlobalInitialize": (None, []),
    "ErrorDestroy": (None, [_p]),
    "ErrorGetMessage": (ctypes.c_char_p, [_p]),
    "SessionCreate": (_p, []),
    "SessionDestroy": (None, [_p]),
    "SessionSetFlags": (_p, [_p, ctypes.c_int, _p]),
    "InvocationCreate": (_p, [_p]),
    "InvocationDestroy": (None, [_p]),
    "InvocationEnableCallbackDiagnostics": (None, [_p, ctypes.c_int, DIAGNOSTIC, _p]),
    "InvocationParseSource": (ctypes.c_bool, [_p, _p]),
    "InvocationSetCompileFromPhase": (None, [_p, ctypes.c_char_p]),
    "InvocationSetCompileToPhase": (None, [_p, ctypes.c_char_p]),
    "InvocationSetDumpCompilationPhasesTo": (None, [_p, ctypes.c_char_p]),
    "InvocationSetVerifyIR": (None, [_p, ctypes.c_bool]),
    "InvocationPipeline": (ctypes.c_bool, [_p, ctypes.c_int]),
    "InvocationRunPassPipeline": (ctypes.c_bool, [_p, ctypes.c_char_p]),
    "InvocationOutputIR": (_p, [_p, _p]),
    "InvocationOutputIRBytecode": (_p, [_p, _p, ctypes.c_int]),
    "InvocationOutputVMBytecode": (_p, [_p, _p]),
    "OutputDestroy": (None, [_p]),
    "OutputOpenMembuffer": (_p, [_p]),
    "OutputMapMemory": (_p, [_p, _p, _p]),
    "SourceDestroy": (None, [_p]),
    "SourceWrapBuffer": (_p, [_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_bool, _p]),
}


class CompilerError(Exception):
    """An error the compiler's interface reported."""


class Compiler:
    """libIREECompiler through ctypes."""

    def __init__(self, library: str) -> None:
        self.lib = ctypes.CDLL(library)
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(self.lib, "ireeCompiler" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        self.lib.ireeCompilerGlobalInitialize()
        self.mlir = mlir_c.Mlir(self.lib)

    def check(self, error: int | None) -> None:
        """Raises CompilerError with the text of the compiler's error, if there is one, and frees that."""
        if error:
            text = self.lib.ireeCompilerErrorGetMessage(error).decode("utf-8", "replace")
            self.lib.ireeCompilerErrorDestroy(error)
            raise CompilerError(text)

    def output(self, write: Any, invocation: int) -> bytes:
        """What `write` (one of the Output functions) puts out for the invocation."""
        out, data, size = _p(), _p(), ctypes.c_uint64()
        self.check(self.lib.ireeCompilerOutputOpenMembuffer(ctypes.byref(out)))
        try:
            self.check(write(invocation, out))
            self.check(self.lib.ireeCompilerOutputMapMemory(out, ctypes.byref(data), ctypes.byref(size)))
            return ctypes.string_at(data.value or 0, size.value)
        finally:
            self.lib.ireeCompilerOutputDestroy(out)
