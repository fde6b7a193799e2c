"""The errors a user can cause, one class a mistake.

Every class names the mistake; its docstring shows the wrong and the right program. Messages say what was given,
what was expected, the user's file and line, and what to write instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class QuireError(Exception):
    """Base of quire's own errors."""


class VerificationError(QuireError, ValueError):
    """A jaxpr that breaks a rule of the IR: scoping, types or parameters."""


class ParseError(QuireError, ValueError):
    """Textual IR that the parser does not accept; the message shows the line with a caret."""


class PassError(QuireError, ValueError):
    """An unknown pass, a wrong pass option, or a pass that failed on a program."""


class CompileError(QuireError, RuntimeError):
    """The backend could not compile a program.

    The message holds the user's line, the compiler's first diagnostic and the folder of a self-contained reproducer, which
    is `reproducer` too, where one was written.
    """

    reproducer: Path | None = None


class KernelError(QuireError, ValueError):
    """A kernel that a user wrote (`quire.kernel`) says something that cannot be: the message has the kernel's line."""


class KernelMismatchError(QuireError, AssertionError):
    """A kernel that a user wrote computes something else than its reference."""


class MiscompiledError(QuireError, RuntimeError):
    """A compiled program gave other numbers than the reference backend (reported when ``config.check`` is on).

    This is a mistake of quire or of IREE. The message names the function, its line, the result, and where it goes wrong.
    """


class OutOfMemoryError(QuireError, RuntimeError, MemoryError):
    """Memory that was asked for cannot be had: for an array, or for a compiled program's results and intermediate values.

    The message says who asked for how much, where, and how much is free. It is a MemoryError too.
    """


class UnsupportedError(QuireError, NotImplementedError):
    """An operation or dtype that a target cannot do; the message names the user's line and an alternative."""


class CallbackResultError(QuireError, RuntimeError, TypeError):
    """A Python function that a program calls returned something else than was declared.

    Wrong: ``quire.pure_callback(lambda x: np.zeros(3), quire.ShapeDtypeStruct((4,), "float32"), x)``. Right: a function that
    returns an array of the declared shape and dtype. It is a RuntimeError as in JAX, and a TypeError too.
    """


class ExportError(UnsupportedError):
    """A function that cannot be written as a program without Python.

    Wrong: ``quire.export.c(f, x, to="f")`` of an ``f`` that calls `pure_callback` or `debug.print`, whose Python functions the
    folder cannot hold. Right: the part of ``f`` that computes, with what the callback gives as an argument.
    """


class TracerError(QuireError, TypeError):
    """Base of the errors that using a traced value as a concrete one raises."""


class ConcretizationTypeError(TracerError):
    """A traced value was used where Python needs a number.

    Wrong, under ``compile``: ``range(x)`` or ``float(x)``. Right: mark the argument static
    (``compile(f, static_argnums=0)``), or use ``lax.fori_loop`` and array operations.
    """


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced value was used as a condition of ``if``, ``while``, ``and``, ``or`` or ``not``.

    Wrong, under ``compile``: ``if x > 0: ...``. Right: ``lax.cond(x > 0, f, g, x)`` or ``numpy.where(x > 0, a, b)``.
    """


class TracerIntegerConversionError(ConcretizationTypeError):
    """A traced value was used as a Python integer, for example as a list index or a shape.

    Wrong, under ``compile``: ``table[i]`` on a list. Right: ``numpy.array(table)[i]``, or a static argument.
    """


class TracerArrayConversionError(TracerError):
    """A traced value was passed to NumPy, which needs the numbers themselves.

    Wrong, under ``compile``: ``np.sin(x)``. Right: ``quire.numpy.sin(x)``, or ``quire.pure_callback``.
    """


class TracerIndexError(TracerError, IndexError):
    """Base of the errors of indices that must be known."""


class NonConcreteBooleanIndexError(TracerIndexError):
    """A boolean mask that is traced was used as an index, so the result's shape is unknown.

    Wrong, under ``compile``: ``x[x > 0]``. Right: ``numpy.where(x > 0, x, 0)``, or ``x.at[mask].set(v)`` forms.
    """


class UnexpectedTracerError(TracerError):
    """A traced value left the function it was traced in (a leak) and was used afterwards.

    Wrong: storing an intermediate value in a global or an attribute from inside a compiled function.
    Right: return it.
    """


class CustomTraceError(TracerError):
    """A class of traces or tracers was derived from quire's. Wrong: ``class MyTrace(quire.core.Trace): ...``. Right: an
    interpreter that walks ``quire.make_jaxpr(f)(*args).eqns``, or a primitive of `quire.extend.core` with rules.
    """


class TypePromotionError(QuireError, TypeError, ValueError):
    """Dtypes that have no common one.

    Wrong, with ``config.numpy_dtype_promotion`` "strict": adding float32 and int32 arrays. Right: ``x + n.astype(x.dtype)``.
    """


class TooManyVariantsError(QuireError, RuntimeError):
    """A function with ``max_variants`` was compiled for more signatures than allowed."""


class IndivisibleError(QuireError, ValueError):
    """A dimension of an array is no multiple of the number of parts that a sharding divides it into."""


class ShardingTypeError(QuireError, TypeError):
    """Along mesh axes of type Explicit, an operation's result could be divided in several ways, or in none.

    Wrong: ``x.reshape(32)`` of float32[8,4@y]. Right: ``quire.numpy.reshape(x, 32, out_sharding=P("y"))``, or
    ``quire.sharding.reshard(x, P())`` before.
    """


class DuplicateSpecError(QuireError, ValueError):
    """A partition spec names a mesh axis twice."""


class KeyReuseError(QuireError, RuntimeError):
    """A random key was consumed twice (reported when ``config.debug_key_reuse`` is on)."""


class CheckError(QuireError, ValueError):
    """Base of the errors that `quire.experimental.checkify` finds at run time."""


class FailedCheckError(CheckError):
    """The condition of a `checkify.check` was false."""


class AssertedError(FailedCheckError, AssertionError):
    """The condition of an `assert` in a function that was compiled with ``checks`` was false."""


class NaNError(CheckError):
    """An operation made a NaN (`checkify.nan_checks`)."""


class DivisionByZeroError(CheckError):
    """A division by zero (`checkify.div_checks`)."""


class OOBError(CheckError):
    """An index outside the array (`checkify.index_checks`)."""


def size_text(n: float) -> str:
    """A number of bytes as it is read: ``512 bytes``, ``1.5 GiB``."""
    if n < 1024:
        return f"{n:.0f} bytes"
    for unit in ("KiB", "MiB", "GiB"):
        n /= 1024
        if n < 1024:
            return f"{n:.4g} {unit}"
    return f"{n / 1024:.4g} TiB"
