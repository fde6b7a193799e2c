"""Evaluation of primitives and jaxprs with NumPy: the oracle of tests, the eager engine, the debugger's stepper."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Params, Var
from quire.ir.primitive import Primitive
from quire.ir.source import out_of_memory
from quire.ir.tracing import hooks, last_uses

from .elementwise_math import SINGLE
from .rules import reference

Array = np.ndarray[Any, Any]


class Place:
    """What a reference of a program names: an array that is written to, or a part of one."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array

    def __getitem__(self, i: int) -> Place:
        return Place(self.array[i, ...])

    def write(self, values: Array) -> None:
        """Replace all elements, which are given in row-major order."""
        self.array[...] = values.reshape(self.array.shape)


class _Quiet(threading.local):
    """A context of this thread in which NumPy is silent about overflow and NaN: entering it costs a tenth of errstate."""

    def __init__(self) -> None:
        self.context = contextvars.Context()
        self.context.run(np.errstate(all="ignore").__enter__)
        self.busy = False


_quiet = _Quiet()

#: Families whose rules call nothing that reads other context variables, as a user's callback might.
LEAVES = frozenset(("elementwise", "structural", "reductions", "contraction", "indexing", "sorting", "linalg"))


def quietly(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call `f`, which must not depend on the current context variables, with NumPy's floating-point warnings off."""
    quiet = _quiet
    if quiet.busy:
        return f(*args, **kwargs)
    quiet.busy = True
    try:
        return quiet.context.run(f, *args, **kwargs)
    finally:
        quiet.busy = False


def evaluate(
    p: Primitive, operands: Sequence[Array], params: Params, out_avals: Sequence[ShapedArray], rule: Any = None
) -> list[Array]:
    """Apply one primitive. Operands and results are NumPy arrays of exactly the avals' shapes and dtypes.

    `rule` replaces the reference rule (see :func:`eager_rule`).
    """
    if p.has_impl and rule is None:
        rule = p.impl
    try:
        if p.family in LEAVES and not p.has_impl:
            return quietly(_apply, p, rule or reference[p], operands, params, out_avals)
        with np.errstate(all="ignore"):
            return _apply(p, rule or reference[p], operands, params, out_avals)
    except MemoryError as error:
        out_of_memory(p.name, error)


def _apply(
    p: Primitive, rule: Callable[..., Any], operands: Sequence[Array], params: Params, out_avals: Sequence[ShapedArray]
) -> list[Array]:
    out = rule(*operands, **params)
    if not p.multiple_results:
        return [exactly(p, out, out_avals[0])]
    return [exactly(p, r, a) for r, a in zip(out, out_avals, strict=True)]


def eager_rule(p: Primitive, dtype: Any) -> Callable[..., Any]:
    """The rule of eager calls on operands of that dtype: the reference rule, or a quicker one for float32."""
    if dtype == np.float32 and p in SINGLE:
        return SINGLE[p]
    return reference[p]


def exactly(p: Primitive, value: Any, aval: ShapedArray) -> Array:
    """A rule's result with the dtype that the type rule says. Raises AssertionError for another shape: a fault of the rule."""
    if type(value) is not np.ndarray:
        if type(value) is Place:
            return value  # pyright: ignore[reportReturnType]
        value = np.asarray(value)
    if value.dtype != aval.dtype:
        value = value.astype(aval.dtype)
    if value.shape != aval.shape:
        raise AssertionError(
            f"reference rule of {p.name} returned shape {value.shape}, the type rule says {aval.short()}"
        )
    return value


Observer = Callable[[Eqn, Sequence[Array], Sequence[Array]], None]
_observer: ContextVar[Observer | None] = ContextVar("quire_observer", default=None)


@contextmanager
def observing(observe: Observer) -> Generator[None]:
    """For the block, call `observe(eqn, operands, results)` after each equation, those of nested jaxprs before the one
    that holds them."""
    token = _observer.set(observe)
    try:
        yield
    finally:
        _observer.reset(token)


Noise = Callable[[Eqn, Sequence[Array], Sequence[Array]], Sequence[Array]]
_noise: ContextVar[Noise | None] = ContextVar("quire_noise", default=None)


@contextmanager
def noisy(noise: Noise) -> Generator[None]:
    """For the block, go on with `noise(eqn, operands, results)` in place of each equation's results, nested ones too."""
    token = _noise.set(noise)
    try:
        yield
    finally:
        _noise.reset(token)


def eval_jaxpr(jaxpr: ClosedJaxpr | Jaxpr, *args: Any, observe: Observer | None = None) -> list[Array]:
    """Run a jaxpr equation by equation. `observe(eqn, operands, results)` is called after each of its equations.

    `observing` sees those of nested jaxprs too.
    """
    if observe is None:
        observe = _observer.get()
    noise = _noise.get()
    consts: Sequence[Any] = ()
    if isinstance(jaxpr, ClosedJaxpr):
        jaxpr, consts = jaxpr.jaxpr, jaxpr.consts
    env: dict[Var, Any] = {}
    for v, x in zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True):
        env[v] = x if type(x) is Place else np.asarray(x, dtype=v.aval.dtype)
    last = last_uses(jaxpr)
    for i, eqn in enumerate(jaxpr.eqns):
        operands = [a.value if isinstance(a, Literal) else env[a] for a in eqn.inputs]
        results = evaluate(eqn.primitive, operands, eqn.params, [v.aval for v in eqn.outputs])
        if noise is not None and results and type(results[0]) is not Place:
            results = [np.asarray(r) for r in noise(eqn, [np.asarray(_seen(x)) for x in operands], results)]
        if observe is not None:
            observe(eqn, [_seen(x) for x in operands], [_seen(x) for x in results])
        env.update(zip(eqn.outputs, results, strict=True))
        for v in last[i]:
            env.pop(v, None)
    return [a.value if isinstance(a, Literal) else env[a] for a in jaxpr.outvars]


def _seen(x: Any) -> Any:
    """A value as observers see it: of a place what it holds."""
    return x.array if type(x) is Place else x


hooks.reference = evaluate
