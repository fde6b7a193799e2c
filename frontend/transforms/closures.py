"""What functions close over: the traced values that a rule of the user's reads without being given them."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from quire.ir.jaxpr import ClosedJaxpr, Jaxpr
from quire.ir.tracing import RefTracer, Trace, Tracer, stand_in, standing_for

from ..arrays.key_array import PRNGKeyArray

# Objects that are looked at for one call at most: a closure over a large model is not worth more.
_MOST = 10_000
_OPAQUE = (
    str,
    bytes,
    int,
    float,
    complex,
    type,
    types.ModuleType,
    types.BuiltinFunctionType,
    Trace,
    Jaxpr,
    ClosedJaxpr,
)


@dataclass(frozen=True, eq=False)
class ClosedOver:
    """Traced values that functions close over; equal where they are the same objects, since tracers compare elementwise."""

    tracers: tuple[Tracer, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClosedOver) and list(map(id, self.tracers)) == list(map(id, other.tracers))

    def __hash__(self) -> int:
        return hash(tuple(map(id, self.tracers)))

    def __len__(self) -> int:
        return len(self.tracers)

    def call(self, f: Callable[..., Any], values: Sequence[Any], *args: Any) -> Any:
        """``f(*args)`` where these values stand for the tracers, whose traces may have ended."""
        if not self.tracers:
            return f(*args)
        with standing_for(self.tracers, values):
            return f(*args)


def closed_over(functions: Iterable[Any]) -> ClosedOver:
    """The traced values that functions reach by closures, defaults, bound arguments and objects, and by functions in these.

    Those whose traces have ended count where a value stands for them: others cannot be used, and are left for the error of
    their use. References are left out, which rules take as they are.
    """
    found: dict[int, Tracer] = {}
    seen: set[int] = set()
    stack = list(functions)
    while stack and len(seen) < _MOST:
        x = stack.pop()
        if id(x) in seen or isinstance(x, _OPAQUE):
            continue
        seen.add(id(x))
        if isinstance(x, Tracer):
            if type(x) is not RefTracer and (x.owner.alive or stand_in(x) is not x):
                found[id(x)] = x
            continue
        stack.extend(_held(x))
    return ClosedOver(tuple(found.values()))


def _held(x: Any) -> Iterable[Any]:
    """What an object holds, as far as a function that has it is likely to read it."""
    if isinstance(x, types.FunctionType):
        cells = [c.cell_contents for c in x.__closure__ or () if _is_filled(c)]
        return (*cells, *(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values())
    if isinstance(x, types.MethodType):
        return (x.__func__, x.__self__)
    if isinstance(x, functools.partial):
        bound = cast("functools.partial[Any]", x)
        return (bound.func, *bound.args, *bound.keywords.values())
    if isinstance(x, dict):
        return cast("dict[Any, Any]", x).values()
    if isinstance(x, tuple | list | set | frozenset):
        return cast("Iterable[Any]", x)
    if isinstance(x, PRNGKeyArray):
        return (x.base,)
    held: dict[str, Any] = getattr(x, "__dict__", {})
    return (
        (held["__wrapped__"],) if type(x).__module__.startswith("quire.") and "__wrapped__" in held else held.values()
    )


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:  # a name that is not bound yet
        return False
    return True
