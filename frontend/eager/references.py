"""Operations on references outside any trace: the values are taken out, computed with, and put back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir.avals import aval_of
from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Params, Var
from quire.ir.primitive import Primitive
from quire.ir.primitives import refs
from quire.ir.references import AbstractRef, ConcreteRef
from quire.ir.source import current_source
from quire.ir.tracing import Trace, Tracer, add_where, eval_jaxpr, hooks
from quire.passes.cache import cached_transform
from quire.passes.discharge import discharged, is_ref, written_refs
from quire.passes.rebuild import prune

from ..arrays.operands import as_array
from ..arrays.references import check_usable, lying_as
from ..compiling.running import shared_copy


def evaluate_with_refs(p: Primitive, args: Sequence[Any], params: Params) -> list[Any]:
    """Apply a primitive that makes, takes or ends references, outside any trace.

    Raises:
        ValueError: a reference was freed, or is given twice.
    """
    if p is refs.new_ref_p:
        value = as_array(args[0])
        (aval,) = p.infer([aval_of(value)], params)
        return [ConcreteRef(_ref_type(aval), shared_copy(value))]
    if p is refs.empty_ref_p:
        (aval,) = p.infer([], params)
        ref = _ref_type(aval)
        return [ConcreteRef(ref, as_array(np.zeros(ref.shape, ref.dtype)))]
    given = [a for a in args if isinstance(a, ConcreteRef)]
    for ref in given:
        check_usable(ref, p.name)
    if p is refs.free_ref_p or p is refs.freeze_p:
        value, given[0].value = given[0].value, None
        given[0].freed = (p.name, current_source())
        return [value] if p is refs.freeze_p else []
    if p is refs.get_p and not params["indexers"]:
        return [shared_copy(given[0].value)]
    # One reference is one variable, however often it is given.
    operands: list[Any] = []
    places: list[int] = []
    for a in args:
        same = [k for k, b in enumerate(operands) if b is a] if isinstance(a, ConcreteRef) else []
        places.append(same[0] if same else len(operands))
        if not same:
            operands.append(a)
    program = _program(p, tuple(params.items()), tuple(aval_of(a) for a in operands), tuple(places))
    values = [a.value if isinstance(a, ConcreteRef) else a for a in operands]
    out = eval_jaxpr(program.values.jaxpr, (), values)
    n = len(out) - len(program.written)
    for i, x in zip(program.written, out[n:]):
        new = shared_copy(as_array(x)) if any(x is y for y in values) else as_array(x)
        operands[i].value = lying_as(operands[i].value, new)
    return [shared_copy(x) if any(x is ref.value for ref in given) else x for x in map(as_array, out[:n])]


def _ref_type(aval: Any) -> AbstractRef:
    assert type(aval) is AbstractRef
    return aval


class _Program:
    """One equation on values, with the operands that it writes."""

    def __init__(self, values: ClosedJaxpr, written: tuple[int, ...]) -> None:
        self.values = values
        self.written = written


@cached_transform()
def _program(
    p: Primitive, params: tuple[tuple[str, Any], ...], avals: tuple[Any, ...], places: tuple[int, ...]
) -> _Program:
    named = dict(params)
    invars = [Var(a) for a in avals]
    inputs = [invars[k] for k in places]
    try:
        outvars = [Var(a) for a in p.infer([v.aval for v in inputs], named)]
    except (TypeError, ValueError) as error:
        add_where(error, current_source())
        raise
    jaxpr = Jaxpr((), invars, outvars, [Eqn(inputs, outvars, p, named, p.effects(named), current_source())])
    written = written_refs(jaxpr)
    return _Program(discharged(jaxpr, written), written)


def _value_through_refs(trace: Trace, var: Var) -> Any | None:
    """The value of a variable of a concrete trace, whose program so far reads and writes references."""
    invars = (*trace.captured_vars, *trace.invars)
    until = next(i for i, eqn in enumerate(trace.eqns) if var in eqn.outputs)
    values = prune(discharged(Jaxpr((), invars, [var], trace.eqns[: until + 1]), ()).jaxpr)
    needed = {a for eqn in values.eqns for a in eqn.inputs} | set(values.outvars)
    known = trace.known_values()
    args: list[Any] = []
    for old, new in zip(invars, values.invars, strict=True):
        found = known.get(old) if not is_ref(old) else _held(trace, old)
        if not isinstance(new, Literal) and new in needed:
            found = found.concrete() if isinstance(found, Tracer) else found
            if found is None:
                return None
        args.append(found)
    env = dict(zip(values.invars, args))
    live = [v for v in values.invars if v in needed]
    out = eval_jaxpr(Jaxpr((), live, values.outvars, values.eqns), (), [env[v] for v in live])
    return as_array(out[0])


def _held(trace: Trace, var: Var) -> Any | None:
    """What a captured reference holds outside of the trace."""
    for v, captured in zip(trace.captured_vars, trace.captured):
        if v is var:
            if isinstance(captured, ConcreteRef):
                return captured.value
            outer = captured.owner
            return _value_of_ref(outer, captured.variable)
    return None


def _value_of_ref(trace: Trace, ref: Var) -> Any | None:
    """What a reference of an enclosing concrete trace holds after all that was recorded there."""
    if not trace.concrete:
        return None
    out = Var(ref.aval.inner_aval)
    read = Eqn((ref,), (out,), refs.get_p, {"indexers": ()}, refs.get_p.effects({}), None)
    trace.eqns.append(read)
    try:
        return _value_through_refs(trace, out)
    finally:
        trace.eqns.remove(read)


hooks.value_through_refs = _value_through_refs
