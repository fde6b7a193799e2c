"""The errors a user can cause, one class a mistake; each class's docstring shows the wrong and the right program."""

from quire.ir.errors import (
    CallbackResultError,
    CheckError,
    CompileError,
    ConcretizationTypeError,
    CustomTraceError,
    DivisionByZeroError,
    FailedCheckError,
    KernelError,
    KernelMismatchError,
    KeyReuseError,
    MiscompiledError,
    NaNError,
    NonConcreteBooleanIndexError,
    OOBError,
    OutOfMemoryError,
    ParseError,
    PassError,
    QuireError,
    TooManyVariantsError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerError,
    TracerIndexError,
    TracerIntegerConversionError,
    TypePromotionError,
    UnexpectedTracerError,
    UnsupportedError,
    VerificationError,
)
from quire.runtime.executable import ExecutionError

from .absent_names import module_getattr

# JAX's names of the bases, for programs that catch them.
JAXTypeError = TracerError
JAXIndexError = TracerIndexError
JaxprTypeError = VerificationError
#: What compiling or running a program raises: `CompileError`, and the errors of IREE's runtime, have no narrower base.
JaxRuntimeError = RuntimeError

__all__ = [
    "CallbackResultError",
    "CheckError",
    "CompileError",
    "ConcretizationTypeError",
    "CustomTraceError",
    "DivisionByZeroError",
    "ExecutionError",
    "FailedCheckError",
    "JAXIndexError",
    "JAXTypeError",
    "JaxRuntimeError",
    "JaxprTypeError",
    "KernelError",
    "KernelMismatchError",
    "KeyReuseError",
    "MiscompiledError",
    "NaNError",
    "NonConcreteBooleanIndexError",
    "OOBError",
    "OutOfMemoryError",
    "ParseError",
    "PassError",
    "QuireError",
    "TooManyVariantsError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerError",
    "TracerIndexError",
    "TracerIntegerConversionError",
    "TypePromotionError",
    "UnexpectedTracerError",
    "UnsupportedError",
    "VerificationError",
]

__getattr__ = module_getattr("quire.errors", globals())
