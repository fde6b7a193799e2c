"""What a transformation (grad, vmap, ...) appends to the program that is being traced: cleaned, and shown as a stage."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from quire.ir.jaxpr import Eqn, Jaxpr, Var
from quire.ir.tracing import Trace, Tracer, current_trace
from quire.passes.rebuild import needed


@dataclass(frozen=True)
class Transformation:
    """One transformation while a program was traced: its name, the function before, and what it appended."""

    name: str
    before: Jaxpr
    equations: Sequence[Eqn]
    read: frozenset[Var]
    outvars: Sequence[Var]
    captured: Sequence[Any] = ()
    """The values of the first inputs of `before`, which it captured: arrays, and traced values of outer traces."""

    @property
    def after(self) -> Jaxpr:
        """The result as a function of the variables it reads from outside, in order of first use."""
        inputs: dict[Var, None] = {}
        for a in (*(a for eqn in self.equations for a in eqn.inputs), *self.outvars):
            if isinstance(a, Var) and a in self.read:
                inputs.setdefault(a)
        return Jaxpr((), tuple(inputs), self.outvars, self.equations)


_recorded: ContextVar[list[Transformation] | None] = ContextVar("quire_transformations", default=None)


@contextmanager
def recorded_transformations() -> Generator[list[Transformation]]:
    """For the block, collect the transformations that are applied inside a trace, innermost first."""
    found: list[Transformation] = []
    token = _recorded.set(found)
    try:
        yield found
    finally:
        _recorded.reset(token)


class appended:
    """Context manager around a transformation of `before`: removes what it appends to the current trace for nothing.

    The block calls the object with the values that it keeps. Nobody else can hold what the transformation binds: the
    user's function was traced before, into a jaxpr of its own.
    """

    __slots__ = ("_name", "_before", "_captured", "_trace", "_start", "_kept", "equations")

    def __init__(self, name: str, before: Jaxpr, captured: Sequence[Any] = ()) -> None:
        self._name = name
        self._before = before
        self._captured = captured
        self._trace: Trace | None = None
        self._start = 0
        self._kept: Sequence[Any] = ()
        self.equations: Sequence[Eqn] = ()  # what was appended, after the block

    def __enter__(self) -> appended:
        self._trace = current_trace()
        if self._trace is not None:
            self._start = len(self._trace.eqns)
        return self

    def __call__(self, values: Sequence[Any]) -> None:
        """Name the results of the block."""
        self._kept = values

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        trace = self._trace
        if trace is None or kind is not None:
            return
        outvars = [x.variable for x in self._kept if isinstance(x, Tracer) and x.owner is trace]
        eqns, read = needed(trace.eqns[self._start :], outvars)
        trace.replace_since(self._start, eqns)
        self.equations = eqns
        found = _recorded.get()
        if found is not None:
            found.append(Transformation(self._name, self._before, eqns, frozenset(read), outvars, self._captured))


def note_transformations(transformations: Sequence[Transformation]) -> None:
    """Add those of a nested compiled function to what is being collected."""
    found = _recorded.get()
    if found is not None:
        found.extend(transformations)
