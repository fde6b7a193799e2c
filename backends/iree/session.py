"""One module in a session of the compiler's own: reading it, running IREE's phases and lists of passes, writing it.

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import ctypes

from compiler import DIAGNOSTIC, SEVERITIES, Compiler

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes longer to import than all else here
    from typing import Any

NEWEST = -1
"""The version of MLIR's bytecode that is written: that of the compiler, which also reads it."""


class Session:
    """One module in a session of its own: a context that lives longer only grows.

    Sessions share nothing, so that several threads may each work on one.
    """

    def __init__(self, compiler: Compiler, module: bytes, flags: tuple[str, ...]) -> None:
        self.compiler, lib = compiler, compiler.lib
        self.diagnostics: list[tuple[str, str]] = []
        self.source_text = module  # the compiler reads it where it is
        self.invocation = self.source = None
        self.session = lib.ireeCompilerSessionCreate()
        try:
            argv = (ctypes.c_char_p * len(flags))(*[flag.encode() for flag in flags])
            compiler.check(lib.ireeCompilerSessionSetFlags(self.session, len(flags), argv))
            self.invocation = lib.ireeCompilerInvocationCreate(self.session)
            self.callback = DIAGNOSTIC(self.report)
            lib.ireeCompilerInvocationEnableCallbackDiagnostics(self.invocation, 0, self.callback, None)
            source = ctypes.c_void_p()
            name = b"module.mlir"
            compiler.check(
                lib.ireeCompilerSourceWrapBuffer(self.session, name, module, len(module), False, ctypes.byref(source))
            )
            self.source = source
        except BaseException:
            self.close()
            raise

    def report(self, severity: int, message: Any, size: int, _: Any) -> None:
        """Note a diagnostic of the compiler's; IREE calls it."""
        text = ctypes.string_at(message, size).decode("utf-8", "replace")
        self.diagnostics.append((SEVERITIES[severity] if 0 <= severity < 4 else "error", text))

    def parse(self) -> bool:
        """Read the module; whether that succeeded."""
        return self.compiler.lib.ireeCompilerInvocationParseSource(self.invocation, self.source)

    def run(self, to_phase: str | None = None, from_phase: str | None = None, invocation: int | None = None) -> bool:
        """Run IREE's pipeline between two phases; whether that succeeded."""
        lib = self.compiler.lib
        invocation = invocation or self.invocation
        if from_phase is not None:
            lib.ireeCompilerInvocationSetCompileFromPhase(invocation, from_phase.encode())
        if to_phase is not None:
            lib.ireeCompilerInvocationSetCompileToPhase(invocation, to_phase.encode())
        return lib.ireeCompilerInvocationPipeline(invocation, 0)

    def run_passes(self, pipeline: str) -> bool:
        """Run a list of passes given as text; whether that succeeded."""
        return self.compiler.lib.ireeCompilerInvocationRunPassPipeline(self.invocation, pipeline.encode())

    def verify(self, on: bool) -> None:
        """Whether the module is verified after each pass."""
        self.compiler.lib.ireeCompilerInvocationSetVerifyIR(self.invocation, on)

    def bytecode(self) -> bytes:
        """The module as it is now, as MLIR's bytecode."""
        return self.bytecode_of(self.invocation or 0)

    def bytecode_of(self, invocation: int) -> bytes:
        """The module of another invocation of the session."""
        write = self.compiler.lib.ireeCompilerInvocationOutputIRBytecode
        return self.compiler.output(lambda of, to: write(of, to, NEWEST), invocation)

    def close(self) -> None:
        """Free what IREE holds for the module; may be called again."""
        lib = self.compiler.lib
        if self.invocation:
            lib.ireeCompilerInvocationDestroy(self.invocation)
        if self.source:
            lib.ireeCompilerSourceDestroy(self.source)
        if self.session:
            lib.ireeCompilerSessionDestroy(self.session)
        self.invocation = self.source = self.session = None
