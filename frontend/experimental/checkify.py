"""Checks of values inside compiled functions, as `jax.experimental.checkify`.

`checkify` makes of a function one that returns an `Error` beside its result: which check failed first, if any. Checks
are those that the function makes (`check`), and automatic ones of operations: NaN, division by zero, indices outside
an array. They work under `compile`, `vmap`, `grad`, and in `cond`, `scan` and `while_loop`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.checks import Site, exception_of
from quire.ir.errors import CheckError, DivisionByZeroError, FailedCheckError, NaNError, OOBError
from quire.ir.primitives import calls
from quire.ir.primitives import elementwise as ew
from quire.ir.tracing import Tracer, trace_flat
from quire.passes.checkify import checkify_eval

from .. import tree_util
from ..watching.tracebacks import user_boundary, wraps

#: The class of the errors of one kind.
ErrorCategory: TypeAlias = type[CheckError]
#: Name of the base class of these errors in JAX.
JaxRuntimeError = CheckError

nan_checks: frozenset[ErrorCategory] = frozenset((NaNError,))
div_checks: frozenset[ErrorCategory] = frozenset((DivisionByZeroError,))
index_checks: frozenset[ErrorCategory] = frozenset((OOBError,))
user_checks: frozenset[ErrorCategory] = frozenset((FailedCheckError,))
float_checks: frozenset[ErrorCategory] = nan_checks | div_checks
automatic_checks: frozenset[ErrorCategory] = float_checks | index_checks
all_checks: frozenset[ErrorCategory] = automatic_checks | user_checks


class Error:
    """What the checks of a function found: the first failure, or none. A pytree: it can be returned, carried, mapped.

    Made by `checkify`; `init_error` is one without failure.
    """

    __slots__ = ("_code", "_payload", "_sites")

    def __init__(self, code: Any, payload: Sequence[Any], sites: tuple[Site, ...]) -> None:
        self._code = code
        self._payload = tuple(payload)
        self._sites = sites

    def get_exception(self) -> CheckError | None:
        """The exception of the failed check, not raised; None if all succeeded. Under vmap it names each lane.

        Raises ConcretizationTypeError while a function is traced.
        """
        if isinstance(self._code, Tracer) and self._code.concrete() is None:
            int(self._code)  # raises, and says where
        return exception_of(self._sites, self._code, self._payload)

    def get(self) -> str | None:
        """The message of the failed check; None if all succeeded."""
        error = self.get_exception()
        return None if error is None else str(error)

    def throw(self) -> None:
        """Raise the error of the failed check, if one failed. Inside a traced function it is `check_error`."""
        check_error(self)

    def __repr__(self) -> str:
        if isinstance(self._code, Tracer) and self._code.concrete() is None:
            return "Error(traced)"
        return f"Error({self.get()})"

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Site, ...]]:
        """The leaves, and what is no array."""
        return (self._code, *self._payload), self._sites

    @classmethod
    def tree_unflatten(cls, sites: tuple[Site, ...], leaves: Sequence[Any]) -> Error:
        """The error of its leaves."""
        code, *payload = leaves
        return cls(code, payload, sites)


tree_util.register_pytree_node_class(Error)
init_error = Error(np.zeros((), np.int32), (), ())


@dataclass(frozen=True)
class _Format:
    """The message of a user's check."""

    text: str
    tree: Any

    def __call__(self, *arrays: Any) -> str:
        args, kwargs = tree_util.tree_unflatten(self.tree, arrays)
        return f"{self.text.format(*args, **kwargs)} (`check` failed)"


def _scalar_bool(name: str, pred: Any) -> Any:
    try:
        aval = aval_of(pred)
    except TypeError:
        raise TypeError(
            f"checkify.{name}: pred must be a bool scalar, got {pred!r} of type {type(pred).__name__}"
        ) from None
    if aval.shape or not dtypes.is_bool(aval.dtype):
        raise TypeError(
            f"checkify.{name}: pred must be a bool scalar, got {aval.short()}: compare it, or reduce it with all()"
        )
    return pred


def _check(name: str, pred: Any, msg: str, args: tuple[Any, ...], kwargs: dict[str, Any], debug: bool) -> None:
    pred = _scalar_bool(name, pred)
    if not isinstance(msg, str):
        raise TypeError(f"checkify.{name}: msg must be a format string, got {msg!r}")
    leaves, tree = tree_util.flatten_arrays((args, kwargs))
    for x in leaves:
        try:
            aval_of(x)
        except TypeError:
            raise TypeError(
                f"checkify.{name}: what the message is formatted with must be arrays or numbers, got {x!r} of type "
                f"{type(x).__name__}: put it into the message itself"
            ) from None
    try:
        msg.format(*args, **kwargs) if not leaves else msg.format(
            *_shown(args), **dict(zip(kwargs, _shown(kwargs.values())))
        )
    except (IndexError, KeyError) as error:
        raise ValueError(
            f"checkify.{name}: the message {msg!r} needs an argument that was not given: {error}"
        ) from None
    site = Site(FailedCheckError, _Format(msg, tree), len(leaves))
    code = ew.select_n(pred, np.int32(1), np.int32(0))
    calls.check_p.bind(code, *leaves, sites=(site,), debug=debug)


def _shown(values: Any) -> list[Any]:
    """Stand-ins that take any format specification."""
    from ..debug import Anything

    return [Anything() for _ in values]


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """Fail with a message unless `pred` holds (`jax.experimental.checkify.check`).

    Args:
        pred: a bool scalar.
        msg: a format string as of `str.format`.
        fmt_args, fmt_kwargs: arrays and numbers (pytrees of them) that the message shows.
        debug: do nothing where no `checkify` collects the check.

    Raises:
        FailedCheckError: at once, outside any traced function.
        ValueError: when a function is compiled that makes a check, but is not inside `checkify`.
        TypeError: pred is no bool scalar, or an argument of the message is no array.

    Example:
        >>> import quire
        >>> from quire.experimental import checkify
        >>> def f(x):
        ...     checkify.check(x > 0, "x must be positive, got {x}", x=x)
        ...     return 1 / x
        >>> error, y = quire.compile(checkify.checkify(f))(-2.0)
        >>> print(error.get())
        x must be positive, got -2.0 (`check` failed)
    """
    _check("check", pred, msg, fmt_args, fmt_kwargs, debug)


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """A `check` that does nothing unless `checkify` collects it (`jax.experimental.checkify.debug_check`).

    Example:
        >>> from quire.experimental import checkify
        >>> checkify.debug_check(False, "not seen")
    """
    _check("debug_check", pred, msg, fmt_args, fmt_kwargs, True)


def check_error(error: Error) -> None:
    """Raise what an `Error` holds; inside a traced function make it a check again (`jax.experimental.checkify.check_error`).

    So a function that takes or makes an Error can be given to `checkify` itself. TypeError for anything else.

    Example:
        >>> import quire
        >>> from quire.experimental import checkify
        >>> inner = checkify.checkify(lambda x: checkify.check(x > 0, "negative"))
        >>> def outer(x):
        ...     error, _ = inner(x)
        ...     checkify.check_error(error)
        >>> error, _ = checkify.checkify(outer)(-1.0)
        >>> error.get()
        'negative (`check` failed)'
    """
    if not isinstance(error, Error):
        raise TypeError(f"checkify.check_error: expected an Error, got {error!r} of type {type(error).__name__}")
    if error._sites:
        calls.check_p.bind(error._code, *error._payload, sites=error._sites, debug=False)


def checkify(f: Callable[..., Any], errors: frozenset[ErrorCategory] = user_checks) -> Callable[..., Any]:
    """A function that returns ``(error, result)``: the first check that failed, and what `f` returns.

    Args:
        f: a function of arrays and pytrees of them.
        errors: which checks: `user_checks` (those of `check`), `nan_checks`, `div_checks`, `index_checks`,
            `float_checks` (NaN and division), `automatic_checks` (all of operations), `all_checks`, or a union.

    The result is computed to the end also when a check fails. `error.get()` is the message or None, `error.throw()`
    raises. Follows `jax.experimental.checkify.checkify`; messages name the user's line besides.

    Raises:
        TypeError: `f` is not a function.
        ValueError: `errors` holds anything but these checks.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> from quire.experimental import checkify
        >>> f = checkify.checkify(lambda x, i: qnp.log(x)[i], errors=checkify.all_checks)
        >>> error, y = f(qnp.ones(3), 5)
        >>> print(error.get())
        out-of-bounds indexing for array of shape (3,): index 5 is out of bounds for axis 0 with size 3 (at ...)
        >>> error, y = f(-qnp.ones(3), 1)
        >>> print(error.get())
        nan generated by primitive: log (at ...)
    """
    if not callable(f):
        raise TypeError(f"checkify: f must be a function, got {f!r}")
    kinds = frozenset(errors)
    unknown = [k for k in kinds if k not in all_checks]
    if unknown:
        raise ValueError(f"checkify: errors holds {unknown[0]!r}, expected a union of the sets of checks (all_checks)")
    name = getattr(f, "__name__", type(f).__name__)

    @wraps(f)
    @user_boundary
    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        leaves, tree = tree_util.flatten_arrays((args, kwargs))
        out_tree: Any = None

        def flat(*xs: Any) -> list[Any]:
            nonlocal out_tree
            call_args, call_kwargs = tree_util.tree_unflatten(tree, xs)
            out, out_tree = tree_util.flatten_arrays(f(*call_args, **call_kwargs))
            return out

        jaxpr, captured, _ = trace_flat(flat, [aval_of(x) for x in leaves], name=f"checkify of {name}")
        found = checkify_eval(jaxpr, [*captured, *leaves], kinds)
        return Error(found.code, found.payload, found.sites), tree_util.tree_unflatten(out_tree, found.outs)

    return checked


__all__ = [
    "CheckError", "DivisionByZeroError", "Error", "ErrorCategory", "FailedCheckError", "JaxRuntimeError", "NaNError",
    "OOBError", "all_checks", "automatic_checks", "check", "check_error", "checkify", "debug_check", "div_checks",
    "float_checks", "index_checks", "init_error", "nan_checks", "user_checks",
]  # fmt: skip
