"""`find_nan`: the first NaN or infinity of a function, forward and backward (`quire.find_nan`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.jaxpr import Eqn
from quire.ir.primitives.calls import fusion_p
from quire.ir.source import Source, where
from quire.passes.compare import source_of_result
from quire.runtime.array import Array, host_value

from .. import tree_util
from ..compiling.compiled_function import CompiledFunction
from ..compiling.compiled_nan_search import search_compiled
from ..compiling.stage_texts import Stages
from ..transforms.differentiation import grad
from ..watching.nan_search import Found, Turn, search

REFERENCE = "reference"


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
        target: whose numbers these are: "reference", or the name of the target whose compiled program alone makes it.
    """

    kind: str
    direction: str
    eqn: Eqn | None
    source: Source | None
    turns: tuple[Turn, ...]
    reaches: bool
    text: str
    target: str = REFERENCE

    def __str__(self) -> str:
        return self.text


def find_nan(
    f: Callable[..., Any], *, infinities: bool = True, backward: bool = True, compiled: bool = True
) -> Callable[..., NanReport | None]:
    """A function that tells, for arguments of `f`, where the first NaN or infinity is made; it returns None where none is.

    Args:
        f: a function of arrays and pytrees of them, compiled or not.
        infinities: look for infinities too.
        backward: where `f` gives one real number and its own computation is fine, look at its gradient by all
            arguments of real numbers too.

        compiled: where the reference backend makes none, look at the compiled program's own numbers.

    The function is traced, and the program runs on the reference backend, equation by equation; that knows of what is masked,
    too. Where it is fine the program is compiled for the arguments' device, and if a result holds a NaN or infinity, once more
    with all its values as results: it is found in the numbers of the kernels that run, with loops turn by turn. Programs that
    call functions of yours are not run compiled: those are not called twice.

    Raises:
        TypeError: `f` is no function.
        CompileError: the target's compiler refuses the program.

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
        report = _look(f, name, "forward", args, kwargs, infinities, compiled)
        if report is not None or not backward:
            return report
        out = _compiled(f).eval_shape(*args, **kwargs)
        numbers = tuple(i for i, x in enumerate(args) if _is_real(x))
        if not numbers or not hasattr(out, "shape") or out.shape != () or not dtypes.is_inexact(out.dtype):
            return None
        if dtypes.is_complex(out.dtype):
            return None
        return _look(grad(f, argnums=numbers), name, "backward", args, kwargs, infinities, compiled)

    return found


def _compiled(f: Callable[..., Any]) -> CompiledFunction:
    return f if isinstance(f, CompiledFunction) else CompiledFunction(f)


def _is_real(x: Any) -> bool:
    leaves = tree_util.tree_leaves(x)
    kinds = [np.asarray(v.dtype if hasattr(v, "dtype") else v).dtype for v in leaves] if leaves else []
    known = [getattr(v, "dtype", k) for v, k in zip(leaves, kinds)]
    return bool(known) and all(dtypes.is_inexact(d) and not dtypes.is_complex(d) for d in known)


def _look(
    f: Callable[..., Any], name: str, direction: str, args: tuple[Any, ...], kwargs: dict[str, Any], infinities: bool,
    compiled: bool,
) -> NanReport | None:  # fmt: skip
    traced = _compiled(f).trace(*args, **kwargs)
    leaves, _ = tree_util.flatten_arrays((args, kwargs))
    arrays = [host_value(x) if type(x) is Array else np.asarray(x) for x in leaves]
    found = search(traced.jaxpr, arrays, infinities=infinities)
    if found is not None:
        return nan_report(found, name, direction, traced.names)
    if not compiled:
        return None
    stages = traced.lower().stages
    found = search_compiled(stages, arrays, infinities=infinities)
    return None if found is None else nan_report(found, name, direction, traced.names, stages)


def nan_report(
    found: Found, name: str, direction: str, names: Sequence[str], stages: Stages | None = None
) -> NanReport:
    """What was found, as people read it; `stages` are those of a compiled program that alone makes it."""
    target = REFERENCE if stages is None else stages.target.name
    turns = "".join(f", {t}" for t in found.turns)
    if found.argument is not None:
        argument = names[found.argument] if names else f"argument {found.argument}"
        text = f"the argument {argument} of {name} holds a {found.kind} already: {found.element}"
        return NanReport(found.kind, direction, None, None, (), found.reaches, text)
    if stages is not None and found.eqn is None:
        assert found.result is not None
        source = source_of_result(stages.program, found.result)
        text = (
            f"{direction}: result {found.result} of {name}{where(source)} holds a {found.kind} on {target} and none by the "
            f"reference backend: {found.element}; with all values of the program as results none is made"
        )
        return NanReport(found.kind, direction, None, source, (), True, text, target)
    eqn = found.eqn
    assert eqn is not None
    what = f"{eqn.primitive.name} ({eqn.params['kind']})" if eqn.primitive is fusion_p else eqn.primitive.name
    by = f", by kernel {', '.join(found.kernels)}" if found.kernels else ""
    ends = "" if found.reaches else " (no result holds one: it is masked)"
    on = ""
    if stages is not None:
        on, ends = f" on {target}", "; the reference backend makes none"
    text = (
        f"{direction}: the first {found.kind} of {name}{on} is made by {what}{where(eqn.source)}{turns}{by}: "
        f"{found.element}{ends}"
    )
    return NanReport(found.kind, direction, eqn, eqn.source, found.turns, found.reaches, text, target)


__all__ = ["NanReport", "find_nan", "nan_report"]
