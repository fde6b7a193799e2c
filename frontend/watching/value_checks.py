"""`config.debug_nans` and `config.debug_infs`: FloatingPointError where a NaN or an infinity appears.

An eager operation is checked itself. A compiled program is checked by its results: if one is bad the program is run
again on the reference backend, and the error names the equation from which the value came, with the user's line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.config import Options, config
from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Params, Var, all_eqns, map_nested, nested_jaxprs
from quire.ir.primitive import Primitive
from quire.ir.primitives import calls
from quire.ir.source import current_source, where
from quire.runtime.array import Array, holds_all, host_value, local_value
from quire.runtime.processes.current import process

Host = np.ndarray[Any, Any]


def bad_elements(x: Any, options: Options) -> Host | None:
    """Where an array holds what the options forbid, as a bool array; None if nowhere."""
    value = host_value(x) if type(x) is Array else np.asarray(x)
    if not dtypes.is_inexact(value.dtype):
        return None
    bad = np.zeros(value.shape, bool)
    if options.debug_nans:
        bad |= np.isnan(value)
    if options.debug_infs:
        bad |= np.isinf(value)
    return bad if bad.any() else None


def _kind(value: Host, bad: Host) -> str:
    return "nan" if np.isnan(value[bad]).any() else "inf"


# -- eager operations -------------------------------------------------------------------------------------------------


def check_eager(p: Primitive, operands: Sequence[Any], params: Params, results: Sequence[Any]) -> None:
    """Raise FloatingPointError if an operation that was evaluated at once gave a bad value."""
    options = config.options
    if any(type(r) is Array and not holds_all(r) for r in (*operands, *results)):
        check_parts(results, p.name, where(current_source(2)))
        return
    for result in results:
        bad = bad_elements(result, options)
        if bad is None:
            continue
        arrays = [host_value(x) if type(x) is Array else np.asarray(x) for x in operands]
        value = host_value(result)
        if any(nested_jaxprs(params)):
            eqn = Eqn([Var(aval_of(x)) for x in operands], [Var(r.aval) for r in results], p, params)
            jaxpr = ClosedJaxpr(Jaxpr((), [v for v in eqn.inputs if isinstance(v, Var)], eqn.outputs, [eqn]))
            found = _replay(jaxpr, arrays, options)
            _raise(found, str(params.get("name", p.name)), [f"operand {i}" for i in range(len(arrays))], value, bad)
        raise FloatingPointError(
            f"invalid value ({_kind(value, bad)}) encountered in {p.name}{where(current_source(2))}: "
            f"{_element(p.name, arrays, value, bad)}"
        )


def check_parts(results: Sequence[Any], name: str, at: str = "") -> None:
    """Raise FloatingPointError if what this process holds of some result is bad; the other processes' parts are theirs."""
    for result in results:
        if type(result) is not Array:
            continue
        value = local_value(result)
        bad = bad_elements(value, config.options)
        if bad is not None:
            index = tuple(int(i) for i in np.argwhere(bad)[0])
            raise FloatingPointError(
                f"invalid value ({_kind(value, bad)}) returned by {name}{at} on process {process().rank}, at index {index} of the "
                f"part {value.dtype}{list(value.shape)} that it holds; run the program in one process to learn the line"
            )


# -- compiled programs ------------------------------------------------------------------------------------------------


def checked_call(
    call: Callable[[Sequence[Any]], Any],
    closed: ClosedJaxpr,
    donated: Sequence[int],
    name: str,
    names: Sequence[str],
    flatten: Callable[[Any], Sequence[Any]],
) -> Callable[[Sequence[Any]], Any]:
    """The call of a compiled program with its results checked.

    `closed` is the program as it was traced, `names` are those of its arguments.
    """

    def checked(leaves: Sequence[Any]) -> Any:
        options = config.options
        # The program takes the memory of donated arguments.
        kept = [np.array(x) if i in donated else x for i, x in enumerate(leaves)] if donated else leaves
        out = call(leaves)
        for result in flatten(out):
            bad = bad_elements(result, options)
            if bad is not None:
                arrays = [np.asarray(x, v.dtype) for x, v in zip(kept, closed.in_avals)]
                _raise(_replay(closed, arrays, options), name, names, host_value(result), bad)
        return out

    return checked


@dataclass(frozen=True)
class _Record:
    """One evaluated equation with a bad value: its operands, its results, and which results are bad."""

    eqn: Eqn
    operands: Sequence[Host]
    results: Sequence[Host]
    bad: tuple[int, ...]


@dataclass(frozen=True)
class _Found:
    """Where a bad value came from: an equation, an argument, or (all None) the replay had none."""

    record: _Record | None = None
    argument: int | None = None
    reason: str = ""


def _replay(closed: ClosedJaxpr, args: Sequence[Host], options: Options) -> _Found:
    """Run the program on the reference backend and follow the first bad result back to its origin."""
    from quire.backends.reference.engine import eval_jaxpr, observing
    from quire.passes.base import PassContext
    from quire.passes.discharge import Discharge

    if any(e.primitive is calls.io_callback_p for e in all_eqns(closed.jaxpr)):
        return _Found(reason="it calls io_callback, so it was not run again to find where")
    # What references hold is followed as values.
    jaxpr = without_debug_callbacks(Discharge().apply(closed, PassContext()).jaxpr)
    records: list[_Record] = []
    producer: dict[int, _Record] = {}  # by the id of a bad array; the records keep the arrays alive

    def observe(eqn: Eqn, operands: Sequence[Host], results: Sequence[Host]) -> None:
        bad = tuple(i for i, r in enumerate(results) if bad_elements(r, options) is not None)
        if bad:
            record = _Record(eqn, list(operands), list(results), bad)
            records.append(record)
            for i in bad:  # a result of a nested equation is known by that equation
                producer.setdefault(id(results[i]), record)

    consts = [np.asarray(c, v.aval.dtype) for c, v in zip(closed.consts, jaxpr.constvars)]
    inputs = [*consts, *args]
    with observing(observe):
        outs = eval_jaxpr(Jaxpr((), (*jaxpr.constvars, *jaxpr.invars), jaxpr.outvars, jaxpr.eqns), *inputs)
    for out in outs:
        if bad_elements(out, options) is not None:
            return _origin(out, inputs, len(consts), producer, records, options)
    return _Found(reason="the reference backend computes no such value for these arguments")


def _origin(
    value: Host, inputs: Sequence[Host], n_consts: int, producer: dict[int, _Record], records: Sequence[_Record],
    options: Options,
) -> _Found:  # fmt: skip
    """Follow a bad value from equation to equation to the first that had no bad operand."""
    seen: set[int] = set()
    while True:
        record = producer.get(id(value))
        if record is None and value.base is not None:  # a row of a scanned array
            record = producer.get(id(value.base))
        if record is None or id(record) in seen:
            matches = (i for i, x in enumerate(inputs) if x is value or value.base is x or np.shares_memory(x, value))
            i = next(matches, None)
            return _Found(argument=None if i is None else i - n_consts, record=record)
        seen.add(id(record))
        inner = {id(e) for j in nested_jaxprs(record.eqn.params) for e in all_eqns(_open(j))}
        if inner:  # a loop, whose stacked results are new arrays: its first bad equation
            first = next((r for r in records if id(r.eqn) in inner and not any(nested_jaxprs(r.eqn.params))), None)
            if first is not None:
                record = first
        came = next((x for x in record.operands if bad_elements(x, options) is not None), None)
        if came is None:
            return _Found(record=record)
        if id(came) not in producer and (came.base is None or id(came.base) not in producer):
            matches = (i for i, x in enumerate(inputs) if x is came or came.base is x)
            i = next(matches, None)
            if i is None or i < n_consts:
                return _Found(record=record)
            return _Found(argument=i - n_consts, record=record)
        value = came


def _open(jaxpr: Jaxpr | ClosedJaxpr) -> Jaxpr:
    return jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr


def without_debug_callbacks(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr whose prints are not printed a second time."""

    def closed(j: ClosedJaxpr) -> ClosedJaxpr:
        return ClosedJaxpr(without_debug_callbacks(j.jaxpr), j.consts)

    if not any(e.primitive is calls.debug_callback_p for e in all_eqns(jaxpr)):
        return jaxpr
    eqns = [
        e.replace(params=map_nested(e.params, closed)) for e in jaxpr.eqns if e.primitive is not calls.debug_callback_p
    ]
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns)


# -- messages ---------------------------------------------------------------------------------------------------------


def _raise(found: _Found, name: str, names: Sequence[str], value: Host, bad: Host) -> NoReturn:
    kind, record = _kind(value, bad), found.record
    if found.argument is not None:
        argument = names[found.argument] if found.argument < len(names) else f"argument {found.argument}"
        raise FloatingPointError(f"invalid value ({kind}) returned by {name}: its argument {argument} holds it already")
    if record is None:
        raise FloatingPointError(f"invalid value ({kind}) returned by {name}: {found.reason or 'a constant of it'}")
    result = record.results[record.bad[0]]
    made = np.isnan(result) if kind == "nan" and np.isnan(result).any() else ~np.isfinite(result)
    eqn = record.eqn
    raise FloatingPointError(
        f"invalid value ({_kind(result, made)}) encountered in {eqn.primitive.name}{where(eqn.source)}, run by {name}: "
        f"{_element(eqn.primitive.name, record.operands, result, made)}\n  the equation: {' '.join(repr(eqn).split())}"
    )


def _element(name: str, operands: Sequence[Host], value: Host, bad: Host) -> str:
    """The first bad element and, for an elementwise operation, the operands' elements from which it came."""
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    place = f" at index {str(at).replace(',)', ')')}" if at else ""
    count = f"{int(bad.sum())} of {value.size} elements, the first{place}" if value.size > 1 else "the result"
    if all(x.shape in ((), value.shape) for x in operands):
        given = ", ".join(str(x[at] if x.shape else x[()]) for x in operands)
        return f"{count} is {name}({given}) = {value[at]}"
    return f"{count} is {value[at]}"


__all__ = ["bad_elements", "check_eager", "checked_call"]
