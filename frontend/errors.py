"""The errors a user can cause, one class a mistake; each class's docstring shows the wrong and the right program."""

from quire.ir.errors import (
    CompileError,
    ConcretizationTypeError,
    KeyReuseError,
    NonConcreteBooleanIndexError,
    ParseError,
    PassError,
    QuireError,
    TooManyVariantsError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
    UnsupportedError,
    VerificationError,
)

__all__ = [
    "CompileError",
    "ConcretizationTypeError",
    "KeyReuseError",
    "NonConcreteBooleanIndexError",
    "ParseError",
    "PassError",
    "QuireError",
    "TooManyVariantsError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerError",
    "TracerIntegerConversionError",
    "UnexpectedTracerError",
    "UnsupportedError",
    "VerificationError",
]
