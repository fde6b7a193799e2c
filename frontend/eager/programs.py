"""Eager programs: a function of several primitives, called on concrete arrays, runs as a list of NumPy calls.

Outside any trace each primitive costs some microseconds of promotion, type rules and wrapping. `eager_program` traces
the function once for each signature of its arguments; later calls run the recorded equations' reference rules on the
NumPy arrays, one after the other, and wrap only the results. Inside a trace, for arrays on a device, and under the
debugging options the function itself is called, as it is when it cannot be traced for such arguments (its result's
shape depends on values) or when it holds something to compile (a loop).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.config import config
from quire.ir.jaxpr import Jaxpr, Literal
from quire.ir.source import out_of_memory
from quire.ir.tracing import current_trace, trace_flat
from quire.runtime.array import Array, host_value

from ..arrays.results import own

F = TypeVar("F", bound=Callable[..., Any])

_SCALARS = (bool, int, float, complex)
_LIMIT = 1024  # signatures of one function


class Program:
    """The equations of one function for one signature, ready to run on NumPy arrays."""

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any], single: bool) -> None:
        from quire.backends.reference.engine import eager_rule, exactly, quietly

        slots: dict[Any, int] = {}
        self.template: list[Any] = []

        def slot(key: Any, value: Any = None) -> int:
            if key not in slots:
                slots[key] = len(self.template)
                self.template.append(value)
            return slots[key]

        for v, x in zip(jaxpr.invars, consts):
            slot(v, host_value(x) if isinstance(x, Array) else np.asarray(x, dtype=v.aval.dtype))
        self.first = len(self.template)
        self.in_avals = [v.aval for v in jaxpr.invars[len(consts) :]]
        for v in jaxpr.invars[len(consts) :]:
            slot(v)

        def read(a: Any) -> int:
            return slot((id(a), "literal"), a.value) if isinstance(a, Literal) else slots[a]

        self._jaxpr = jaxpr  # keeps the literals alive, whose ids are keys
        self._steps: list[Any] = []
        for eqn in jaxpr.eqns:
            p, inputs = eqn.primitive, [read(a) for a in eqn.inputs]
            rule = eager_rule(p, eqn.inputs[0].aval.dtype if inputs else None)
            self._steps.append((p, rule, inputs, eqn.params, [(slot(v), v.aval) for v in eqn.outputs]))
        self._outputs = [(read(a), a.aval) for a in jaxpr.outvars]
        self._single = single
        self._exactly, self._quietly = exactly, quietly

    def _run(self, env: list[Any]) -> None:
        exactly = self._exactly
        for p, rule, inputs, params, outputs in self._steps:
            try:
                out = rule(*[env[i] for i in inputs], **params)
            except MemoryError as error:
                out_of_memory(p.name, error)
            if p.multiple_results:
                for (i, aval), value in zip(outputs, out):
                    env[i] = exactly(p, value, aval)
            else:
                i, aval = outputs[0]
                env[i] = exactly(p, out, aval)

    def __call__(self, operands: Sequence[Any]) -> Any:
        """Run on the operands: Arrays in host memory and Python scalars."""
        env = self.template.copy()
        known: list[Any] = []
        i = self.first
        for x, aval in zip(operands, self.in_avals):
            if type(x) is Array:
                host = x._host
                if host is None:
                    host = host_value(x)
                env[i] = host
                known.append(host)
            else:
                env[i] = np.asarray(x, dtype=aval.dtype)
            i += 1
        self._quietly(self._run, env)
        if self._single:
            i, aval = self._outputs[0]
            return own(env[i], aval, known)
        return tuple([own(env[i], aval, known) for i, aval in self._outputs])


class _Table:
    """The programs of one function by signature; None for a signature that is run by the function itself."""

    def __init__(self, f: Callable[..., Any], operands: int) -> None:
        self.f = f
        self.operands = operands
        self.programs: dict[Any, Program | None] = {}
        self.lock = threading.Lock()

    def make(self, key: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Trace the function for the signature of these arguments."""
        with self.lock:
            if len(self.programs) >= _LIMIT:
                self.programs.clear()
            self.programs[key] = _trace(self.f, args, kwargs, self.operands)


def _trace(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], n: int) -> Program | None:
    from quire.backends.reference import reference
    from quire.backends.reference.engine import LEAVES

    kinds: list[bool] = []

    def flat(*xs: Any) -> list[Any]:
        out = f(*xs, *args[n:], **kwargs)
        kinds.append(type(out) is not tuple)
        return [out] if kinds[0] else list(out)

    avals: list[ShapedArray] = [aval_of(x) for x in args[:n]]
    try:
        jaxpr, consts, _ = trace_flat(flat, avals, name="an eager program")
        runs = all(e.primitive in reference.rules and e.primitive.family in LEAVES for e in jaxpr.eqns)
    except Exception:  # its own call raises the user's error, or works where values are known
        return None
    return Program(jaxpr, consts, kinds[0]) if runs else None


def eager_program(operands: int = 1) -> Callable[[F], F]:
    """Decorator: run the function as an eager program when its first `operands` arguments are arrays or numbers.

    Its other arguments are static: they decide the program by their values. The function returns an array or a tuple.
    """

    def decorate(f: F) -> F:
        table = _Table(f, operands)
        programs = table.programs

        @wraps(f)
        def apply(*args: Any, **kwargs: Any) -> Any:
            if current_trace() is not None or len(args) < operands:
                return f(*args, **kwargs)
            options = config.options
            key: list[Any] = [options.trace_key]
            for x in args[:operands]:
                kind = type(x)
                if kind is Array and x._device is None:
                    key.append(x.aval)
                elif kind in _SCALARS:
                    key.append(kind)
                else:
                    return f(*args, **kwargs)
            for x in args[operands:]:
                key.append(type(x))
                key.append(x)
            for name, x in kwargs.items():
                key += (name, type(x), x)
            signature = tuple(key)
            try:
                program = programs.get(signature, table)
            except TypeError:  # a static argument without a hash, such as a list or an array
                return f(*args, **kwargs)
            if program is table:
                table.make(signature, args, kwargs)
                program = programs[signature]
            if program is None or options.debug_nans or options.debug_infs or options.profiling:
                return f(*args, **kwargs)
            try:
                return program(args[:operands])  # type: ignore[operator]
            except OverflowError:  # a Python integer that its dtype does not hold: the function says so
                return f(*args, **kwargs)

        return apply  # type: ignore[return-value]

    return decorate
