"""`find_nan`: the first NaN or infinity of a function, forward and backward (`quire.find_nan`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.jaxpr import Eqn
from quire.ir.source import Source, where
from quire.runtime.array import Array, host_value

from .. import tree_util
from ..compiling.compiled_function import CompiledFunction
from ..transforms.differentiation import grad
from ..watching.nan_search import Found, Turn, search


@dataclass(frozen=True)
class NanReport:
    """Where the first NaN or infinity is made.

    Attributes:
        kind: "nan" or "inf".
        direction: "forward", or "backward" for the gradient.
        eqn: the equation; None where an argument holds it already.
        source: the user's line.
        turns: the turns of loops that it is within, the outermost first.
        reaches: whether a result holds one: a NaN may be masked.
        text: all of it, as people read it.
    """

    kind: str
    direction: str
    eqn: Eqn | None
    source: Source | None
    turns: tuple[Turn, ...]
    reaches: bool
    text: str

    def __str__(self) -> str:
        return self.text


def find_nan(
    f: Callable[..., Any], *, infinities: bool = True, backward: bool = True
) -> Callable[..., NanReport | None]:
    """A function that tells, for arguments of `f`, where the first NaN or infinity is made; it returns None where none is.

    Args:
        f: a function of arrays and pytrees of them, compiled or not.
        infinities: look for infinities too.
        backward: where `f` gives one real number and its own computation is fine, look at its gradient by all
            arguments of real numbers too.

    The function is traced, and the program runs on the reference backend, equation by equation, whatever the arguments'
    device is: rounding may differ from that of the compiled program, so what overflows by little there may not do so here.

    Raises:
        TypeError: `f` is no function.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> report = quire.find_nan(lambda x: qnp.sum(qnp.sqrt(x)))(qnp.zeros(3))
        >>> report.direction, report.kind
        ('backward', 'inf')
    """
    if not callable(f):
        raise TypeError(f"find_nan: f must be a function, got {f!r}")
    name = getattr(f, "__name__", type(f).__name__)

    def found(*args: Any, **kwargs: Any) -> NanReport | None:
        report = _look(f, name, "forward", args, kwargs, infinities)
        if report is not None or not backward:
            return report
        out = _compiled(f).eval_shape(*args, **kwargs)
        numbers = tuple(i for i, x in enumerate(args) if _is_real(x))
        if not numbers or not hasattr(out, "shape") or out.shape != () or not dtypes.is_inexact(out.dtype):
            return None
        if dtypes.is_complex(out.dtype):
            return None
        return _look(grad(f, argnums=numbers), name, "backward", args, kwargs, infinities)

    return found


def _compiled(f: Callable[..., Any]) -> CompiledFunction:
    return f if isinstance(f, CompiledFunction) else CompiledFunction(f)


def _is_real(x: Any) -> bool:
    leaves = tree_util.tree_leaves(x)
    kinds = [np.asarray(v.dtype if hasattr(v, "dtype") else v).dtype for v in leaves] if leaves else []
    known = [getattr(v, "dtype", k) for v, k in zip(leaves, kinds)]
    return bool(known) and all(dtypes.is_inexact(d) and not dtypes.is_complex(d) for d in known)


def _look(
    f: Callable[..., Any], name: str, direction: str, args: tuple[Any, ...], kwargs: dict[str, Any], infinities: bool
) -> NanReport | None:
    traced = _compiled(f).trace(*args, **kwargs)
    leaves, _ = tree_util.flatten_arrays((args, kwargs))
    arrays = [host_value(x) if type(x) is Array else np.asarray(x) for x in leaves]
    found = search(traced.jaxpr, arrays, infinities=infinities)
    return None if found is None else _report(found, name, direction, traced.names)


def _report(found: Found, name: str, direction: str, names: Any) -> NanReport:
    if found.eqn is None:
        argument = names[found.argument] if names else f"argument {found.argument}"
        text = f"the argument {argument} of {name} holds a {found.kind} already: {found.element}"
        return NanReport(found.kind, direction, None, None, (), found.reaches, text)
    eqn = found.eqn
    turns = "".join(f", {t}" for t in found.turns)
    masked = "" if found.reaches else " (no result holds one: it is masked)"
    text = (
        f"{direction}: the first {found.kind} of {name} is made by {eqn.primitive.name}{where(eqn.source)}{turns}: "
        f"{found.element}{masked}"
    )
    return NanReport(found.kind, direction, eqn, eqn.source, found.turns, found.reaches, text)


__all__ = ["NanReport", "find_nan"]
