"""Primitives and the data structures of programs, for libraries that extend quire (`jax.extend.core`).

The classes are quire's own, so that a program which a library builds or rewrites is one that quire compiles. Interpreters of
a user's own walk ``jaxpr.eqns``, read ``eqn.invars``, bind ``eqn.primitive`` and write ``eqn.outvars``, as in JAX. Classes of
traces are the one thing of JAX's that cannot be extended: `Trace` in `quire.core` says what to do instead.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from quire.ir import dtypes, tracing
from quire.ir.avals import AbstractToken, AbstractValue, ShapedArray, aval_of
from quire.ir.axes import axes_key, axis_sizes
from quire.ir.errors import ConcretizationTypeError, VerificationError
from quire.ir.jaxpr import NO_EFFECTS, Atom, ClosedJaxpr, DebugInfo, Effects, Eqn, Jaxpr, Literal, SourceInfo, Var
from quire.ir.jaxpr import Eqn as JaxprEqn
from quire.ir.primitive import Primitive
from quire.ir.tracing import Trace, Tracer, current_trace, raise_concretization
from quire.ir.verifier import verify
from quire.runtime.array import Array

from ...absent_names import module_getattr
from ...arrays.tokens import Token
from ..linear_util import WrappedFun

no_effects = NO_EFFECTS
JaxprTypeError = VerificationError
array_types: set[type] = {np.ndarray, np.bool_, *(d.type for d in dtypes.ALL), Array}


class Effect:
    """The base of other packages' effects: what `def_effectful_abstract_eval` gives beside the results' types.

    An equation with effects is never removed, and keeps its place among others with effects.
    """


class EffectTypeSet:
    """Types of effects for which something is allowed; packages add theirs, and quire allows it for all."""

    def __init__(self) -> None:
        self._types: set[type] = set()

    def add_type(self, effect_type: type) -> None:
        """Add a type."""
        self._types.add(effect_type)

    def contains(self, effect: Any) -> bool:
        """Whether an effect's type was added, or is quire's own."""
        return isinstance(effect, (str, *self._types))

    def filter_in(self, effects: Iterable[Any]) -> list[Any]:
        """The effects whose types were added."""
        return [e for e in effects if self.contains(e)]

    def filter_not_in(self, effects: Iterable[Any]) -> list[Any]:
        """The effects whose types were not added."""
        return [e for e in effects if not self.contains(e)]


class DropVar(Var):
    """A result that nothing reads. quire's own equations have ordinary variables there."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "_"


class CallPrimitive(Primitive):
    """A primitive that applies a function (`WrappedFun`): bound, the function's own operations take its place."""

    multiple_results = True
    call_primitive = True

    def bind(self, fun: WrappedFun, *args: Any, **params: Any) -> list[Any]:
        """The function's results."""
        return list(fun.call_wrapped(*args))


def call_impl(f: WrappedFun, *args: Any, **params: Any) -> list[Any]:
    """The results of a wrapped function."""
    return f.call_wrapped(*args)


# -- building and reading jaxprs --------------------------------------------------------------------------------------


def new_jaxpr_eqn(
    invars: Sequence[Atom], outvars: Sequence[Var], primitive: Primitive, params: Mapping[str, Any],
    effects: Effects = NO_EFFECTS, source_info: Any = None, ctx: Any = None,
) -> Eqn:  # fmt: skip
    """An equation. `source_info` is another equation's, `ctx` is accepted."""
    return Eqn(invars, outvars, primitive, dict(params), frozenset(effects), getattr(source_info, "source", None))


def gensym(suffix: str = "") -> Callable[[AbstractValue], Var]:
    """A function that makes a new variable of a type. Variables are named when they are printed: `suffix` is accepted."""
    return lambda aval: Var(aval)


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr, *args: Any) -> Callable[..., list[Any]]:
    """The function that a closed jaxpr is, of flat values; `args` are the first of them, as in JAX."""
    return partial(_apply, closed_jaxpr, *args)


def _apply(closed: ClosedJaxpr, *args: Any) -> list[Any]:
    if len(args) != len(closed.jaxpr.invars):
        raise TypeError(f"the jaxpr takes {len(closed.jaxpr.invars)} arguments, got {len(args)}")
    return tracing.eval_jaxpr(closed.jaxpr, closed.consts, args)


def jaxprs_in_params(params: Mapping[str, Any]) -> Iterator[Jaxpr]:
    """The jaxprs in an equation's parameters, also in tuples and lists, each without its constants' values."""
    for value in params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if isinstance(item, Jaxpr):
                yield item
            elif isinstance(item, ClosedJaxpr):
                yield item.jaxpr


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """The jaxprs that the equations of a jaxpr hold; not those within them."""
    for eqn in jaxpr.eqns:
        yield from jaxprs_in_params(eqn.params)


def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Raises VerificationError for a jaxpr whose variables or types are wrong."""
    verify(ClosedJaxpr(Jaxpr((), (*jaxpr.constvars, *jaxpr.invars), jaxpr.outvars, jaxpr.eqns)))


# -- types ------------------------------------------------------------------------------------------------------------


def mapped_aval(size: int, axis: int | None, aval: Any) -> Any:
    """The type of one lane of a value whose dimension `axis` has the lanes; the type itself for None.

    Raises ValueError unless that dimension has `size` elements.
    """
    if axis is None or not isinstance(aval, ShapedArray):
        return aval
    axis %= aval.ndim
    if aval.shape[axis] != size:
        raise ValueError(f"mapped_aval: dimension {axis} of {aval.short()} has not {size} elements")
    return aval.update(shape=(*aval.shape[:axis], *aval.shape[axis + 1 :]))


def unmapped_aval(size: int, axis: int | None, aval: Any, *_: Any) -> Any:
    """The type of `size` lanes in dimension `axis` of values of one type; the type itself for None."""
    if axis is None or not isinstance(aval, ShapedArray):
        return aval
    return aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))


def primal_dtype_to_tangent_dtype(primal_dtype: Any) -> Any:
    """The dtype of tangents of values of a dtype: float0 for integers."""
    return ShapedArray((), primal_dtype).tangent().dtype


def valid_jaxtype(x: Any) -> bool:
    """Whether x is an array, or a number, that can be an operand."""
    try:
        aval_of(x)
    except (TypeError, OverflowError):
        return False
    return True


def get_aval(x: Any) -> Any:
    """The type of a value. Raises TypeError for what is no array."""
    return aval_of(x)


def concrete_or_error(force: Callable[[Any], Any] | None, val: Any, context: str = "") -> Any:
    """The value as `force` makes it (int, float, np.asarray), where it is known.

    Raises ConcretizationTypeError for a traced value that is not.
    """
    force = (lambda x: x) if force is None else force
    if isinstance(val, Tracer):
        known = val.concrete()
        if known is None:
            raise_concretization(val, ConcretizationTypeError, context)
        return force(known)
    return force(val)


# -- what is being traced ---------------------------------------------------------------------------------------------


class OpaqueTraceState:
    """What is being traced, to compare: equal only while nothing was begun or ended."""

    __slots__ = ("_trace", "_axes")

    def __init__(self) -> None:
        trace = current_trace()
        self._trace = None if trace is None else weakref.ref(trace)
        self._axes = axes_key()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._trace == other._trace and self._axes == other._axes

    def __hash__(self) -> int:
        return hash((self._trace, self._axes))


def get_opaque_trace_state(convention: str | None = None) -> OpaqueTraceState:
    """The state of tracing: two are equal if they were asked for in one trace. `convention` is accepted."""
    return OpaqueTraceState()


def find_top_trace(xs: Iterable[Any] = ()) -> Trace | None:
    """The innermost trace that is going on; None outside any."""
    return current_trace()


@contextlib.contextmanager
def set_current_trace(trace: Trace | None) -> Generator[None]:
    """For the block, operations are recorded in this trace; evaluated at once for None."""
    token = tracing.set_current(trace)
    try:
        yield
    finally:
        tracing.reset_current(token)


@contextlib.contextmanager
def take_current_trace() -> Generator[Trace | None]:
    """For the block no trace is current; the block is given the one that was."""
    trace = current_trace()
    with set_current_trace(None):
        yield trace


class TraceTag:
    """What tells the traces of one transformation from others, in JAX. quire's traces are told apart by themselves."""


def nonempty_axis_env_DO_NOT_USE() -> bool:
    """Whether there are named axes in scope."""
    return bool(axis_sizes())


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:
    """The names of the axes in scope."""
    return list(axis_sizes())


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Whether a compiled function is being traced."""
    trace = current_trace()
    return trace is not None and trace.staging


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    """Whether a function that is mapped by `vmap` is being traced."""
    trace = current_trace()
    while trace is not None and not trace.name.startswith("vmap"):
        trace = trace.parent
    return trace is not None


__all__ = [
    "AbstractToken", "AbstractValue", "CallPrimitive", "ClosedJaxpr", "DebugInfo", "DropVar", "Effect", "EffectTypeSet",
    "Effects", "Jaxpr", "JaxprEqn", "JaxprTypeError", "Literal", "OpaqueTraceState", "Primitive", "ShapedArray", "SourceInfo",
    "Token", "TraceTag", "Var", "array_types", "call_impl", "check_jaxpr", "concrete_or_error", "find_top_trace", "gensym",
    "get_aval", "get_opaque_trace_state", "jaxpr_as_fun", "jaxprs_in_params", "mapped_aval", "new_jaxpr_eqn", "no_effects",
    "nonempty_axis_env_DO_NOT_USE", "primal_dtype_to_tangent_dtype", "set_current_trace", "subjaxprs",
    "take_current_trace", "unmapped_aval", "unsafe_am_i_under_a_jit_DO_NOT_USE", "unsafe_am_i_under_a_vmap_DO_NOT_USE",
    "unsafe_get_axis_names_DO_NOT_USE", "valid_jaxtype",
]  # fmt: skip

#: Imported when first used.
_LAZY = ("primitives",)

__getattr__ = module_getattr("quire.extend.core", globals(), _LAZY)
