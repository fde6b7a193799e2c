"""``compile(checks=...)``: a compiled function that raises where an assertion fails or an index is outside.

Built on `checkify`: the program has the error's code, and the arrays of its message, as results. They are looked at after
each call, which waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from quire.ir.config import config

from ..compiling.compiled_function import CompiledFunction
from ..watching import assertions  # noqa: F401  (tells the tracer of assertions)
from ..watching.tracebacks import user_boundary
from .checkify import ErrorCategory, checkify, div_checks, index_checks, nan_checks, user_checks

KINDS: dict[str, frozenset[ErrorCategory]] = {
    "assert": user_checks, "index": index_checks, "nan": nan_checks, "div": div_checks,
}  # fmt: skip
"""The names of the checks. "assert" are also those of `checkify.check`."""
DEFAULT = ("assert", "index")


def kinds_of(checks: Any) -> frozenset[ErrorCategory]:
    """The checks that ``checks`` names.

    Raises:
        ValueError: a name that no check has.
    """
    names: Iterable[Any] = DEFAULT if checks is True else tuple(KINDS) if checks == "all" else (
        checks.split(",") if isinstance(checks, str) else checks
    )  # fmt: skip
    found: frozenset[ErrorCategory] = frozenset()
    for name in names:
        key = name.strip() if isinstance(name, str) else name
        if key not in KINDS:
            raise ValueError(
                f"compile(checks=...): no check is named {name!r}; expected True, 'all' or some of {', '.join(KINDS)}"
            )
        found |= KINDS[key]
    return found


def checked_function(f: Callable[..., Any], checks: Any, options: dict[str, Any]) -> Callable[..., Any]:
    """A compiled function that raises what its checks find.

    Raises:
        TypeError: `f` is no function.
        ValueError: `checks` names no checks.
    """
    kinds = kinds_of(checks)
    if not callable(f):
        raise TypeError(f"quire.compile: expected a function, got {f!r} of type {type(f).__name__}")

    @wraps(f)
    def with_asserts(*args: Any, **kwargs: Any) -> Any:
        with config.override(traced_asserts=True):
            return f(*args, **kwargs)

    compiled = CompiledFunction(checkify(with_asserts, errors=kinds), **options)

    @wraps(f)
    @user_boundary
    def checked(*args: Any, **kwargs: Any) -> Any:
        error, out = compiled(*args, **kwargs)
        error.throw()
        return out

    checked.__dict__["compiled"] = compiled
    return checked
