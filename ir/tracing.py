"""The one tracer, and `bind`, through which every operation goes.

Tracing a function appends equations to a jaxpr. A value of an outer trace met in an inner one, and a concrete array,
become captured inputs of the inner jaxpr (closure conversion), so nested jaxprs never hold constants. A trace is
either *staging* (everything is recorded, values are unknown) or *concrete* (the transformations outside `compile`):
then operations on known values can be evaluated on demand, so that Python may branch on them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, NoReturn, cast

import numpy as np

from . import errors, leaks
from .avals import HasAval, ShapedArray, aval_of
from .config import config
from .jaxpr import (
    NO_EFFECTS,
    Atom,
    ClosedJaxpr,
    Effects,
    Eqn,
    Jaxpr,
    Literal,
    Params,
    Var,
    all_eqns,
    has_nested,
    nested_jaxprs,
)
from .primitive import Primitive
from .references import REF_EFFECTS, AbstractRef, ConcreteRef, Ref
from .source import Source, current_source, is_internal, where
from .varying import varying_alike

_PYTHON_SCALARS = (bool, int, float, complex)

# -- hooks, filled by registration from the backends and the runtime ------------------------------------------------

EagerEvaluator = Callable[[Primitive, Sequence[Any], Params], list[Any]]
ReferenceEvaluator = Callable[[Primitive, Sequence[Any], Params, Sequence[ShapedArray]], list[Any]]


class Hooks:
    """What lies above `ir`: evaluation of one primitive on concrete values, and the making of concrete arrays."""

    def __init__(self) -> None:
        self.evaluate: EagerEvaluator | None = None
        # NumPy arrays in and out: for passes that fold constants or compare programs.
        self.reference: ReferenceEvaluator | None = None
        # A program, NumPy arrays and its results for them: how far rounding may take each element.
        self.spread: Callable[[ClosedJaxpr, Sequence[Any], Sequence[Any]], list[Any]] | None = None
        # Whether a loop becomes one kernel for a target (`quire.backends.targets.Target`): passes leave its body as it is.
        self.whole_loop: Callable[[Eqn, Any], bool] | None = None
        # A tracer whose truth is asked for in a frame: what an assertion needs it to be, once it is a check; None elsewhere.
        self.asserted: Callable[[Tracer, Any], bool | None] | None = None
        # A variable of a concrete trace that depends on references: its value, None where it is not known.
        self.value_through_refs: Callable[[Trace, Var], Any] | None = None

    def eager(self, p: Primitive, args: Sequence[Any], params: Params) -> list[Any]:
        """A primitive's results for concrete values.

        Raises:
            RuntimeError: no evaluator is registered.
        """
        if p.has_impl:
            out = p.impl(*args, **params)
            return list(out) if p.multiple_results else [out]
        return self.own(p, args, params)

    def own(self, p: Primitive, args: Sequence[Any], params: Params) -> list[Any]:
        """The same by the evaluator, whatever `def_impl` was given.

        Raises:
            RuntimeError: no evaluator is registered.
        """
        if self.evaluate is None:
            raise RuntimeError("no evaluator is registered: import quire, or quire.backends.reference")
        return self.evaluate(p, args, params)


hooks = Hooks()


# -- tracers --------------------------------------------------------------------------------------------------------


def _refuse_subclass(cls: Any, own: bool) -> None:
    """Have a class of traces, or tracers, of another package raise CustomTraceError when one is made.

    The class itself may be defined: libraries define some that most of their users never need.
    """

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise errors.CustomTraceError(
            f"class {cls.__name__} derives from quire's {cls.__bases__[0].__name__}: quire has one kind of trace, and classes "
            "of others would never be asked. Trace the function with quire.make_jaxpr and walk the equations of its jaxpr "
            "(quire.extend.core), or define a primitive with rules (quire.interpreters)"
        )

    if not own:
        cls.__new__ = refuse


class Tracer(HasAval):
    """A value of a program that is being traced. The user's operators and methods are attached by `quire`."""

    def __init_subclass__(cls, *, own: bool = False) -> None:
        _refuse_subclass(cls, own)

    __slots__ = ("aval", "owner", "variable", "_value", "__weakref__")
    aval: ShapedArray
    owner: Trace
    variable: Var
    __array_priority__ = 1000

    def __init__(self, trace: Trace, var: Var, value: Any = None) -> None:
        self.aval = var.aval
        self.owner = trace
        self.variable = var
        self._value = value

    @property
    def _trace(self) -> Trace:  # JAX's name, which libraries read
        return self.owner

    def __repr__(self) -> str:
        return f"Traced<{self.aval.short()}>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise errors.ConcretizationTypeError(
            f"a traced value {self.aval.short()} of {self.owner.name} cannot be pickled{where(current_source())}: it has no "
            "elements before the program runs. Return it, or hand it to quire.io_callback"
        )

    def __hash__(self) -> NoReturn:
        raise TypeError(
            f"a traced value {self.aval.short()} cannot be hashed (used as a dictionary key or a static argument)"
        )

    def concrete(self) -> Any | None:
        """The value, if it is known: a concrete array. None under `compile` and for mapped values."""
        if self._value is None and self.owner.concrete:
            self._value = self.owner.value_of(self.variable)
        return self._value

    # Uses as a concrete value.
    def __bool__(self) -> bool:
        if hooks.asserted is not None and config.options.traced_asserts:
            found = hooks.asserted(self, sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
            if found is not None:
                return found
        return bool(self._known(errors.TracerBoolConversionError))

    def __int__(self) -> int:
        return int(self._known(errors.ConcretizationTypeError, "int()"))

    def __float__(self) -> float:
        return float(self._known(errors.ConcretizationTypeError, "float()"))

    def __complex__(self) -> complex:
        return complex(self._known(errors.ConcretizationTypeError, "complex()"))

    def __index__(self) -> int:
        return self._known(errors.TracerIntegerConversionError).__index__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self._known(errors.TracerArrayConversionError), dtype=dtype)

    def item(self, *args: Any) -> Any:
        """The value as a Python scalar, where it is known; ConcretizationTypeError elsewhere."""
        return self._known(errors.ConcretizationTypeError, ".item()").item(*args)

    def tolist(self) -> Any:
        """The value as nested lists of Python scalars, where it is known; ConcretizationTypeError elsewhere."""
        return self._known(errors.ConcretizationTypeError, ".tolist()").tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        """The value's memory, where it is known; ConcretizationTypeError elsewhere."""
        return self._known(errors.ConcretizationTypeError, ".tobytes()").tobytes(order)

    def _known(self, error: type[errors.TracerError], use: str = "") -> Any:
        value = self.concrete()
        if value is None:
            raise_concretization(self, error, use)
        return value


class RefTracer(Ref, Tracer, own=True):
    """A reference in a program that is being traced."""

    __slots__ = ("freed",)
    freed: tuple[str, Source | None] | None

    def __init__(self, trace: Trace, var: Var) -> None:
        super().__init__(trace, var)
        self.freed = None

    def __repr__(self) -> str:
        return f"Traced<{self.aval.short()}>"

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        return object.__hash__(self)


# Operations on these are recorded, also by a concrete trace: what a place holds is known in order only.
_RECORDED = (Tracer, ConcreteRef)
# So are those of a mapped axis, and the making of references.
_RECORDED_FAMILIES = frozenset(("collectives", "refs"))


def tracer_of(trace: Trace, var: Var) -> Tracer:
    """The tracer of a variable."""
    return RefTracer(trace, var) if type(var.aval) is AbstractRef else Tracer(trace, var)


_ADVICE: dict[type[errors.TracerError], tuple[str, str]] = {
    errors.TracerBoolConversionError: (
        "was used as a Python condition (if, while, and, or, not)",
        "use quire.lax.cond or quire.numpy.where, quire.lax.while_loop for a loop, & | ~ for and, or, not",
    ),
    errors.ConcretizationTypeError: (
        "was used where Python needs its value",
        "mark the argument static (static_argnums) if it is one, or use array operations",
    ),
    errors.TracerIntegerConversionError: (
        "was used as a Python integer (an index of a list, a shape, range())",
        "index an array instead of a list, use quire.lax.fori_loop for range, or mark the argument static",
    ),
    errors.TracerArrayConversionError: (
        "was passed to NumPy, which needs its value",
        "use the function of the same name in quire.numpy, or quire.pure_callback",
    ),
    errors.NonConcreteBooleanIndexError: (
        "was used as a boolean index, so the result's shape is unknown",
        "use quire.numpy.where(mask, x, fill), or nonzero(mask, size=n)",
    ),
}


def raise_concretization(t: Tracer, error: type[errors.TracerError], use: str = "") -> NoReturn:
    """Raise the error of a traced value used as a concrete one, with the user's line and what to write instead."""
    what, advice = _ADVICE[error]
    if use:
        what = f"{what}: {use}"
    raise error(
        f"a traced value {t.aval.short()} {what}{where(current_source(2))}.\n"
        f"  {t.owner.describe(t)}.\n"
        f"  Under {t.owner.name} values are not known while the function is traced: {advice}."
    )


# -- traces ---------------------------------------------------------------------------------------------------------


class Trace:
    """The recording of one function.

    Attributes:
        name: what is traced, for messages: ``compile of f``.
        parent: the trace in which this one takes place.
        staging: everything is recorded, values are unknown (also inside a staging trace).
        concrete: values can be asked for (no staging trace around).
        captured: the values of outer traces and the arrays that became inputs, in order of first use.
    """

    def __init_subclass__(cls, *, own: bool = False) -> None:
        _refuse_subclass(cls, own)

    # Whether known types may be appended as they are; a trace that sorts equations by their operands says no.
    inlines = True

    __slots__ = (
        "name", "parent", "staging", "concrete", "eqns", "invars", "captured", "captured_vars",
        "_capture_index", "_known", "_producer", "alive", "arg_names", "_evaluated", "__weakref__",
    )  # fmt: skip

    def __init__(self, name: str, *, staging: bool, arg_names: Sequence[str] | None = None) -> None:
        self.name = name
        self.parent = _current.get()
        self.staging = staging or (self.parent is not None and self.parent.staging)
        self.concrete = not self.staging
        self.eqns: list[Eqn] = []
        self.invars: list[Var] = []
        self.captured: list[Any] = []
        self.captured_vars: list[Var] = []
        self._capture_index: dict[int, Var] = {}
        self._known: dict[Var, Any] = {}
        self._producer: dict[Var, Eqn] = {}
        self._evaluated = 0
        self.alive = True
        self.arg_names = arg_names

    @property
    def main(self) -> Trace:
        """What is the same for all of a transformation's traces, in JAX: itself."""
        return self

    def new_input(self, aval: ShapedArray, value: Any = None) -> Tracer:
        """A tracer for the next argument; `value` is its concrete value, where there is one."""
        var = Var(aval)
        self.invars.append(var)
        if value is not None and self.concrete:
            self._known[var] = value
        return tracer_of(self, var)

    def capture(self, value: Any) -> Var:
        """The variable of an outer tracer or of a concrete array: an additional input."""
        var = self._capture_index.get(id(value))
        if var is None:
            if isinstance(value, Tracer):
                check_alive(value)
            var = Var(aval_of(value))
            self._capture_index[id(value)] = var
            self.captured.append(value)  # keeps the value alive, so that its id stays its own
            self.captured_vars.append(var)
            if self.concrete:
                self._known[var] = value
        return var

    def atom(self, value: Any) -> Atom:
        """The operand for any value: a variable of this trace, a captured one, or a literal."""
        if isinstance(value, Tracer):
            if value.owner is self:
                return value.variable
            if not value.owner.alive:
                standing = stand_in(value)
                if standing is not value:
                    return self.atom(standing)
            return self.capture(value)
        if cast("Any", type(value)) in _PYTHON_SCALARS or isinstance(value, np.generic):
            return Literal(value, aval_of(value))
        if isinstance(value, Literal):
            return value
        aval = aval_of(value)
        if not aval.shape and isinstance(value, np.ndarray | bool | int | float | complex):
            return Literal(value, aval)
        return self.capture(value)

    def record(
        self, p: Primitive, inputs: Sequence[Atom], params: Params, source: Source | None = None
    ) -> tuple[Var, ...]:
        """Append an equation and return its output variables."""
        if ShapedArray.any_varies:
            inputs = varying_alike(self.record, p, inputs, params, source)
        effects: Effects = NO_EFFECTS
        try:
            if p.foreign:
                avals, effects = p.infer_all([a.aval for a in inputs], params)
            else:
                avals = p.infer([a.aval for a in inputs], params)
        except (TypeError, ValueError) as error:
            add_where(error, source or current_source(2))
            raise
        if p.effects_rule is not None:
            effects = p.effects(params)
        outputs = tuple([Var(a) for a in avals])
        eqn = Eqn(inputs, outputs, p, params, effects, source or current_source(2))
        self.eqns.append(eqn)
        return outputs

    def append(self, eqn: Eqn) -> None:
        """Append an equation whose types are known."""
        self.eqns.append(eqn)

    def bind(self, p: Primitive, args: Sequence[Any], params: Params) -> Any:
        """Record an equation; returns the tracers of its results, or the one tracer."""
        atoms = [a.variable if type(a) is Tracer and a.owner is self else self.atom(a) for a in args]
        outputs = self.record(p, atoms, params)
        if p.multiple_results:
            return [Tracer(self, v) for v in outputs]
        return Tracer(self, outputs[0]) if p.family != "refs" else tracer_of(self, outputs[0])

    def replace_since(self, start: int, eqns: Sequence[Eqn]) -> None:
        """Put other equations in the place of those recorded since the trace had `start` of them."""
        if len(eqns) != len(self.eqns) - start:
            self.eqns[start:] = eqns
            self._evaluated = min(self._evaluated, start)

    # Values on demand: only the equations that a value depends on are evaluated, each once.
    def value_of(self, var: Var) -> Any | None:
        """The concrete value of a variable, computed if need be; None where it depends on unknown inputs."""
        if not self.concrete:
            return None
        if var in self._known:
            return self._resolve(var)
        for eqn in self.eqns[self._evaluated :]:
            for v in eqn.outputs:
                self._producer[v] = eqn
        self._evaluated = len(self.eqns)
        order: list[Eqn] = []
        seen: set[Var] = set()
        stack: list[tuple[Var, bool]] = [(var, False)]
        while stack:
            v, done = stack.pop()
            if done:
                order.append(self._producer[v])
                continue
            if v in seen or v in self._known:
                continue
            seen.add(v)
            eqn = self._producer.get(v)
            if eqn is None or eqn.primitive.family == "collectives" or _asks_an_axis(eqn.params):  # unknown, or mapped
                return None
            if eqn.effects and not eqn.effects.isdisjoint(REF_EFFECTS):  # what it reads depends on what was written
                return self._value_through_refs(var)
            stack.append((v, True))
            stack.extend((a, False) for a in eqn.inputs if isinstance(a, Var))
        token = _current.set(None)
        try:
            for eqn in order:
                if eqn.outputs and eqn.outputs[0] in self._known:
                    continue
                values = [a.python_value if isinstance(a, Literal) else self._resolve(a) for a in eqn.inputs]
                if any(value is None for value in values):  # it depends on a value that is not known outside either
                    return None
                for v, value in zip(eqn.outputs, hooks.eager(eqn.primitive, values, eqn.params), strict=True):
                    self._known[v] = value
        finally:
            _current.reset(token)
        return self._known[var]

    def _value_through_refs(self, var: Var) -> Any | None:
        """`value_of` for a variable that depends on what references hold: the program so far is turned into values."""
        assert hooks.value_through_refs is not None
        token = _current.set(None)
        try:
            found = hooks.value_through_refs(self, var)
        finally:
            _current.reset(token)
        if found is not None:
            self._known[var] = found
        return found

    def _resolve(self, var: Var) -> Any | None:
        """A known value; that of an outer trace's tracer is asked for now, not when it was captured."""
        value = self._known[var]
        if isinstance(value, Tracer):
            value = value.concrete()
            if value is not None:
                self._known[var] = value
        return value

    def known_values(self) -> dict[Var, Any]:
        """The variables whose values have been computed or given."""
        return self._known

    def describe(self, t: Tracer) -> str:
        """Where a tracer comes from, for messages."""
        if t.variable in self.invars:
            i = self.invars.index(t.variable)
            name = self.arg_names[i] if self.arg_names and i < len(self.arg_names) else f"argument {i}"
            return f"It is {name} of {self.name}"
        for eqn in self.eqns:
            if t.variable in eqn.outputs:
                return f"It is the result of {eqn.primitive.name}{where(eqn.source)}"
        for var, value in zip(self.captured_vars, self.captured):
            if var is t.variable and isinstance(value, Tracer):
                return value.owner.describe(value)
        return f"It belongs to {self.name}"

    def close(self) -> None:
        """End the trace: from now on its tracers must not be used."""
        self.alive = False

    def to_jaxpr(self, outputs: Sequence[Any]) -> Jaxpr:
        """The jaxpr recorded so far: captured values first, then the arguments, are its inputs."""
        outvars = [self.atom(x) for x in outputs]
        return Jaxpr((), (*self.captured_vars, *self.invars), outvars, self.eqns)


_current: ContextVar[Trace | None] = ContextVar("quire_trace", default=None)


def current_trace() -> Trace | None:
    """The innermost trace of this context; None outside any."""
    return _current.get()


def set_current(trace: Trace | None) -> Any:
    """Make a trace, or none, the current one; what is returned goes to `reset_current`."""
    return _current.set(trace)


def reset_current(token: Any) -> None:
    """Make that trace current again that was when `set_current` gave the token."""
    _current.reset(token)


class new_trace:
    """Context manager: a trace that is current for the block and closed afterwards."""

    def __init__(self, name: str, *, staging: bool, arg_names: Sequence[str] | None = None) -> None:
        self.trace = Trace(name, staging=staging, arg_names=arg_names)

    def __enter__(self) -> Trace:
        self._token = _current.set(self.trace)
        return self.trace

    def __exit__(self, *exc: object) -> None:
        _current.reset(self._token)
        self.trace.close()


class no_trace:
    """Context manager: operations in the block are evaluated at once, whatever is being traced around it."""

    def __enter__(self) -> None:
        self._token = _current.set(None)

    def __exit__(self, *exc: object) -> None:
        _current.reset(self._token)


_compile_time: ContextVar[bool] = ContextVar("quire_compile_time", default=False)


class compile_time(no_trace):
    """`no_trace` for a user's block: what is known is computed at once, operations on tracers go to the tracers' trace."""

    def __enter__(self) -> None:
        super().__enter__()
        self._flag = _compile_time.set(True)

    def __exit__(self, *exc: object) -> None:
        _compile_time.reset(self._flag)
        super().__exit__(*exc)


# What stands for values of traces that have ended, by their ids, while a function that closes over them runs.
_standing: ContextVar[dict[int, Any]] = ContextVar("quire_standing")


class standing_for:
    """Context manager: a function that closes over tracers runs, for which these values stand where their trace has ended."""

    def __init__(self, tracers: Sequence[Tracer], values: Sequence[Any]) -> None:
        self._values = dict(zip(map(id, tracers), values, strict=True))

    def __enter__(self) -> None:
        self._token = _standing.set({**_standing.get({}), **self._values})

    def __exit__(self, *exc: object) -> None:
        _standing.reset(self._token)


def stand_in(x: Any) -> Any:
    """The value that stands for a tracer whose trace has ended; the tracer itself, or any other value, where none does."""
    return _standing.get({}).get(id(x), x) if isinstance(x, Tracer) and not x.owner.alive else x


def check_alive(t: Tracer) -> None:
    """Raise UnexpectedTracerError if the tracer outlived its trace, and no value stands for it."""
    if stand_in(t) is not t:
        return
    trace: Trace | None = _current.get()
    while trace is not None and trace is not t.owner:
        trace = trace.parent
    if trace is None:
        raise errors.UnexpectedTracerError(
            f"a traced value {t.aval.short()} of {t.owner.name} was used after its trace ended, or in another "
            f"one{where(current_source(2))}.\n  {t.owner.describe(t)}.\n"
            "  It leaked through a global, an attribute, a closure or a generator: return it from the function instead."
        )


def _asks_an_axis(params: Params) -> bool:
    """Whether nested jaxprs hold collectives: what they compute depends on the axis that is being mapped."""
    return any(
        eqn.primitive.family == "collectives"
        for inner in nested_jaxprs(params)
        for eqn in all_eqns(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)
    )


def bind(p: Primitive, args: Sequence[Any], params: Params) -> Any:
    """Apply a primitive to values: record it in the current trace, or evaluate it outside any.

    In a concrete trace an operation on concrete values only is evaluated and not recorded.
    """
    trace = _current.get()
    if trace is not None and (
        trace.staging
        or any(isinstance(a, _RECORDED) for a in args)
        or p.family in _RECORDED_FAMILIES
        or has_nested(params)
        and _asks_an_axis(params)
    ):
        return trace.bind(p, args, params)
    for a in args:
        if isinstance(a, Tracer):
            if trace is None and _compile_time.get() and a.owner.alive:
                return _bind_in_owner(p, args, params)
            check_alive(a)
            args = [stand_in(x) for x in args]
    if trace is None:
        out = hooks.eager(p, args, params)
    else:
        with no_trace():
            out = hooks.eager(p, args, params)
    return out if p.multiple_results else out[0]


def _bind_in_owner(p: Primitive, args: Sequence[Any], params: Params) -> Any:
    """Apply a primitive, in a block that computes at once, to values of which some are not known: they know their trace."""
    owners = [a.owner for a in args if isinstance(a, Tracer)]
    innermost = max(owners, key=_depth)  # the one which can capture the values of those around it
    token = _current.set(innermost)
    try:
        return innermost.bind(p, args, params)
    finally:
        _current.reset(token)


def _depth(trace: Trace) -> int:
    depth = 0
    parent = trace.parent
    while parent is not None:
        depth, parent = depth + 1, parent.parent
    return depth


def evaluate(p: Primitive, args: Sequence[Any], params: Params) -> Any:
    """A primitive's value for concrete values, whatever is being traced and whatever `def_impl` was given."""
    with no_trace():
        out = hooks.own(p, args, params)
    return out if p.multiple_results else out[0]


Primitive.binder = staticmethod(bind)
Primitive.evaluator = staticmethod(evaluate)


def add_where(error: Exception, source: Source | None) -> None:
    """Append the user's position to an error's message, once."""
    if source is None or not error.args or not isinstance(error.args[0], str) or " (at " in error.args[0]:
        return
    error.args = (error.args[0] + where(source), *error.args[1:])


def raised_at(error: BaseException) -> Source | None:
    """The innermost user's position of an error that quire raised; None for an error of the user's own code."""
    tb = error.__traceback__
    found: Source | None = None
    internal = False
    while tb is not None:
        code = tb.tb_frame.f_code
        internal = is_internal(code)
        if not internal:
            found = Source(code.co_filename, tb.tb_lineno, code.co_qualname)
        tb = tb.tb_next
    return found if internal else None


# -- tracing a flat function ------------------------------------------------------------------------------------------


def trace_flat(
    f: Callable[..., Sequence[Any]],
    avals: Sequence[ShapedArray],
    *,
    name: str = "function",
    staging: bool = True,
    values: Sequence[Any] | None = None,
    arg_names: Sequence[str] | None = None,
) -> tuple[Jaxpr, list[Any], Trace]:
    """Trace `f`, which takes and returns flat values.

    Returns the jaxpr whose inputs are the captured values followed by the arguments, the captured values (outer
    tracers and concrete arrays), and the closed trace (it knows the concrete values of a concrete trace).
    `values` gives each argument's concrete value, or None.
    """
    with new_trace(name, staging=staging, arg_names=arg_names) as trace:
        jaxpr = _record(f, trace, avals, values)
    if config.options.check_tracer_leaks:
        leaks.check(lambda o: type(o) in (Tracer, RefTracer) and o.owner is trace, trace.name, trace.describe)
    return jaxpr, trace.captured, trace


def _record(
    f: Callable[..., Sequence[Any]], trace: Trace, avals: Sequence[ShapedArray], values: Sequence[Any] | None,
) -> Jaxpr:  # fmt: skip
    """Call the function with tracers; when it returns, no variable of ours holds one (the check for leaks sees all)."""
    known = values or [None] * len(avals)
    args = [trace.new_input(a, v) for a, v in zip(avals, known, strict=True)]
    try:
        out = f(*args)
    except (TypeError, ValueError, IndexError, NotImplementedError) as error:
        add_where(error, raised_at(error))
        raise
    return trace.to_jaxpr(out)


def close_captured(jaxpr: Jaxpr, captured: Sequence[Any]) -> ClosedJaxpr:
    """Turn captured concrete arrays, the first inputs, into the constants of a closed jaxpr (top level only)."""
    n = len(captured)
    captured = [
        # a copy: NumPy arrays may change
        np.array(cast("np.ndarray[Any, Any]", x), dtype=v.aval.dtype) if isinstance(x, np.ndarray) else x
        for x, v in zip(captured, jaxpr.invars)
    ]
    return ClosedJaxpr(Jaxpr(jaxpr.invars[:n], jaxpr.invars[n:], jaxpr.outvars, jaxpr.eqns), captured)


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Apply a jaxpr to values by binding each equation: recorded in a trace, evaluated outside one.

    Inside a trace the equations are appended with their types as they are, and keep their source.
    """
    env: dict[Var, Any] = {}
    for v, x in zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True):
        env[v] = x
    trace = _current.get()
    if trace is not None and trace.inlines and (trace.staging or any(isinstance(x, _RECORDED) for x in env.values())):
        return _inline(trace, jaxpr, env)
    from .source import use_source

    last = last_uses(jaxpr)
    for i, eqn in enumerate(jaxpr.eqns):
        values = [a.python_value if isinstance(a, Literal) else env[a] for a in eqn.inputs]
        if eqn.source is not None:
            with use_source(eqn.source):
                out = bind(eqn.primitive, values, eqn.params)
        else:
            out = bind(eqn.primitive, values, eqn.params)
        for v, x in zip(eqn.outputs, out if eqn.primitive.multiple_results else (out,), strict=True):
            env[v] = x
        for v in last[i]:
            env.pop(v, None)
    return [a.python_value if isinstance(a, Literal) else env[a] for a in jaxpr.outvars]


def rebind(eqn: Eqn, values: Sequence[Any]) -> list[Any]:
    """Apply an equation's primitive to other values. In a trace, known types are not inferred again."""
    trace = _current.get()
    if trace is not None and trace.inlines and (trace.staging or any(isinstance(x, _RECORDED) for x in values)):
        inputs = [trace.atom(x) for x in values]
        if all(a.aval is b.aval for a, b in zip(inputs, eqn.inputs)):
            outputs = tuple([Var(v.aval) for v in eqn.outputs])
            trace.append(Eqn(inputs, outputs, eqn.primitive, eqn.params, eqn.effects, eqn.source))
        else:
            outputs = trace.record(eqn.primitive, inputs, eqn.params, eqn.source)
        return [tracer_of(trace, v) for v in outputs]
    out = bind(eqn.primitive, values, eqn.params)
    return out if eqn.primitive.multiple_results else [out]


def merge_captured(
    jaxprs: Sequence[Jaxpr | ClosedJaxpr], captured: Sequence[Sequence[Any]]
) -> tuple[list[Any], list[ClosedJaxpr]]:
    """The union of what some traced functions captured, and their jaxprs taking all of it as first inputs."""
    union: list[Any] = []
    index: dict[int, int] = {}
    for values in captured:
        for value in values:
            if id(value) not in index:
                index[id(value)] = len(union)
                union.append(value)
    closed: list[ClosedJaxpr] = []
    for j, values in zip(jaxprs, captured, strict=True):
        jaxpr = j.jaxpr if isinstance(j, ClosedJaxpr) else j
        own = {index[id(value)]: v for value, v in zip(values, jaxpr.invars)}
        consts = [own.get(k) or Var(aval_of(value)) for k, value in enumerate(union)]
        closed.append(ClosedJaxpr(Jaxpr((), (*consts, *jaxpr.invars[len(values) :]), jaxpr.outvars, jaxpr.eqns)))
    return union, closed


def last_uses(jaxpr: Jaxpr) -> list[list[Var]]:
    """For each equation, the variables that nothing after it reads (freed while evaluating)."""
    result: list[list[Var]] = [[] for _ in jaxpr.eqns]
    seen: set[Var] = {a for a in jaxpr.outvars if isinstance(a, Var)}
    for i in range(len(jaxpr.eqns) - 1, -1, -1):
        eqn = jaxpr.eqns[i]
        for v in (*eqn.outputs, *eqn.inputs):
            if isinstance(v, Var) and v not in seen:
                seen.add(v)
                result[i].append(v)
    return result


def _inline(trace: Trace, jaxpr: Jaxpr, env: dict[Var, Any]) -> list[Any]:
    names: dict[Var, Atom] = {v: trace.atom(x) for v, x in env.items()}
    for eqn in jaxpr.eqns:
        inputs = [names[a] if isinstance(a, Var) else a for a in eqn.inputs]
        if all(a.aval is b.aval for a, b in zip(inputs, eqn.inputs)):
            outputs = tuple([Var(v.aval) for v in eqn.outputs])
            trace.append(Eqn(inputs, outputs, eqn.primitive, eqn.params, eqn.effects, eqn.source))
        else:  # a weak type differs: infer anew
            outputs = trace.record(eqn.primitive, inputs, eqn.params, eqn.source)
        for old, new in zip(eqn.outputs, outputs, strict=True):
            names[old] = new

    def value(a: Atom) -> Any:
        atom = names[a] if isinstance(a, Var) else a
        return atom.python_value if isinstance(atom, Literal) else Tracer(trace, atom)

    return [value(a) for a in jaxpr.outvars]
