"""Making a program small while something is still true of it: delta debugging on jaxprs.

A `Case` is a program with values for its arguments. Candidates are cases with fewer results, equations, loops, elements,
arguments and digits. What is cut out of the middle becomes an argument, whose value is what the reference backend computes
there, so that what is left sees the same numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

import quire
from quire import lax
from quire.backends.reference.engine import eval_jaxpr
from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.errors import QuireError
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, all_eqns, nested_jaxprs
from quire.ir.source import use_source
from quire.ir.verifier import verify
from quire.passes.base import PassContext
from quire.passes.dce import dce_eqns
from quire.passes.inline import Inline
from quire.passes.rebuild import with_io
from quire.passes.rewriting import count_eqns

Host = np.ndarray[Any, Any]
UNROLLED = 3
"""A scan of so many turns is written out."""


@dataclass(frozen=True)
class Case:
    """A program without constants, and a value for each argument."""

    closed: ClosedJaxpr
    values: tuple[Host, ...]

    @property
    def jaxpr(self) -> Jaxpr:
        """The program."""
        return self.closed.jaxpr

    def weight(self) -> tuple[int, ...]:
        """What is to become smaller: equations, elements, arguments, results, digits."""
        eqns = list(all_eqns(self.jaxpr))
        elements = sum(v.aval.size for e in eqns for v in e.outputs) + sum(a.size for a in self.closed.in_avals)
        elements += sum(e.params["length"] for e in eqns if "length" in e.params)
        literals = [a.value for e in eqns for a in e.inputs if isinstance(a, Literal)]
        digits = sum(len(str(x)) for x in literals)
        return count_eqns(self.jaxpr), elements, len(self.jaxpr.invars), len(self.jaxpr.outvars), digits


def case_of(closed: ClosedJaxpr, values: Sequence[Any]) -> Case:
    """A case of a program, whose constants become arguments."""
    jaxpr = closed.jaxpr
    given = [*closed.consts, *values]
    whole = Jaxpr((), (*jaxpr.constvars, *jaxpr.invars), jaxpr.outvars, jaxpr.eqns)
    return Case(ClosedJaxpr(whole), tuple(np.asarray(x, v.aval.dtype) for x, v in zip(given, whole.invars)))


@dataclass
class Reduction:
    """What a reduction found: the smallest case, and how many were tried."""

    case: Case
    tries: int


def reduced(case: Case, holds: Callable[[Case], bool], *, tries: int = 400, seconds: float = 300.0) -> Reduction:
    """The smallest case that was found for which `holds`; it must hold of the given one."""
    end, count = time.monotonic() + seconds, 0
    seen: set[Any] = set()

    def test(candidate: Case) -> bool:
        nonlocal count
        if candidate.weight() >= case.weight() or candidate.closed in seen:
            return False
        seen.add(candidate.closed)
        try:
            verify(candidate.closed)
        except (QuireError, AssertionError):
            return False
        count += 1
        return holds(candidate)

    progress = True
    while progress:
        progress = False
        for way in WAYS:
            again = True
            while again:
                again = False
                for candidate in way(case):
                    if count >= tries or time.monotonic() > end:
                        return Reduction(case, count)
                    if candidate is not None and test(candidate):
                        case, progress, again = candidate, True, True
                        break
    return Reduction(case, count)


def tidy(closed: ClosedJaxpr, values: Sequence[Host]) -> Case | None:
    """The case without the equations and arguments that nothing needs; None where nothing is computed."""
    jaxpr = dce_eqns(closed.jaxpr)
    used = {a for e in jaxpr.eqns for a in e.inputs} | set(jaxpr.outvars)
    kept = [i for i, v in enumerate(jaxpr.invars) if v in used]
    if not jaxpr.eqns or not jaxpr.outvars:
        return None
    return Case(with_io(jaxpr, invars=[jaxpr.invars[i] for i in kept]), tuple(values[i] for i in kept))


# -- candidates, those that leave out most first


def _results(case: Case) -> Iterator[Case | None]:
    out = case.jaxpr.outvars
    size = len(out)
    while size >= 1 and len(out) > 1:
        for i in range(0, len(out), size):
            for part in (out[i : i + size], (*out[:i], *out[i + size :])):
                yield tidy(with_io(case.closed, outvars=part), case.values)
        size //= 2


def _ends(case: Case) -> Iterator[Case | None]:
    """An earlier value as the only result, the middle first."""
    eqns = case.jaxpr.eqns
    places, step = list[int](), len(eqns)
    while step > 1:
        step = -(-step // 2)
        places += range(step - 1, len(eqns), step)
    for i in dict.fromkeys(places):
        for v in eqns[i].outputs[:2]:
            yield tidy(with_io(case.closed, outvars=[v]), case.values)


def _cuts(case: Case) -> Iterator[Case | None]:
    """Some equations left out: their results are arguments."""
    eqns = case.jaxpr.eqns
    known = _values(case)
    size = len(eqns) // 2
    while size >= 1:
        for i in range(0, len(eqns), size):
            gone = eqns[i : i + size]
            made = [v for e in gone for v in e.outputs if v in known and v.aval.dtype != dtypes.float0]
            if any(e.effects for e in gone) or len(made) < sum(len(e.outputs) for e in gone):
                continue
            jaxpr = case.jaxpr
            rest = Jaxpr((), (*jaxpr.invars, *made), jaxpr.outvars, (*eqns[:i], *eqns[i + size :]))
            yield tidy(ClosedJaxpr(rest), (*case.values, *(known[v] for v in made)))
        size //= 2


def _values(case: Case) -> dict[Var, Host]:
    """What the reference backend computes for each variable; fewer where it cannot."""
    known: dict[Var, Host] = {}

    def observe(eqn: Eqn, operands: Sequence[Host], results: Sequence[Host]) -> None:
        known.update(zip(eqn.outputs, (np.array(r) for r in results)))

    try:
        with np.errstate(all="ignore"):
            eval_jaxpr(case.closed, *case.values, observe=observe)
    except Exception:  # a program that the reference cannot run is reduced without values in its middle
        for e in case.jaxpr.eqns:
            for v in e.outputs:
                known.setdefault(v, np.ones(v.aval.shape, v.aval.dtype))
    return known


def _bypasses(case: Case) -> Iterator[Case | None]:
    """An equation's result is one of its operands, also within loops and branches."""
    for jaxpr in _bypassed(case.jaxpr):
        yield tidy(ClosedJaxpr(jaxpr), case.values)


def _bypassed(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    for i, e in enumerate(jaxpr.eqns):
        if len(e.outputs) == 1 and not e.effects:
            (v,) = e.outputs
            for a in dict.fromkeys(e.inputs):
                if a.aval == v.aval:
                    yield _with(jaxpr, i, (), {v: a})
        for name, value in e.params.items():
            inner = value if isinstance(value, tuple) else (value,)
            for k, one in enumerate(inner):
                if not isinstance(one, ClosedJaxpr):
                    continue
                for smaller in _bypassed(one.jaxpr):
                    new: Any = ClosedJaxpr(dce_eqns(smaller), one.consts)
                    whole = (*inner[:k], new, *inner[k + 1 :]) if isinstance(value, tuple) else new
                    yield _with(jaxpr, i, (e.replace(params={**e.params, name: whole}),), {})


def _with(jaxpr: Jaxpr, i: int, new: Sequence[Eqn], names: dict[Var, Atom]) -> Jaxpr:
    """The jaxpr with its i-th equation replaced, and some variables by others."""

    def named(a: Atom) -> Atom:
        return names.get(a, a) if isinstance(a, Var) else a

    rest = [e.replace(inputs=[named(a) for a in e.inputs]) for e in jaxpr.eqns[i + 1 :]]
    return Jaxpr(jaxpr.constvars, jaxpr.invars, [named(a) for a in jaxpr.outvars], [*jaxpr.eqns[:i], *new, *rest])


def _calls(case: Case) -> Iterator[Case | None]:
    """Calls inlined, loops of few turns written out, loops and branches replaced by one of their bodies."""
    inlined = Inline().apply(case.closed, PassContext())
    if inlined is not case.closed:
        yield Case(inlined, case.values)
    for i, e in enumerate(case.jaxpr.eqns):
        name = e.primitive.name
        bodies = [j for j in nested_jaxprs(e.params) if isinstance(j, ClosedJaxpr)]
        if name == "scan" and e.params["length"] <= UNROLLED:
            yield _retraced(case, i, lambda xs, e=e, b=bodies[0]: _unrolled(e, b, xs))
        elif name == "while":
            yield _retraced(case, i, lambda xs, e=e: _one_turn(e, xs))
        elif name == "cond":
            for b in bodies:
                yield _retraced(case, i, lambda xs, b=b: _bound(b, xs[1:]))


def _bound(closed: ClosedJaxpr, args: Sequence[Any], at: int = -1, instead: Any = None) -> list[Any]:
    """Bind a program's equations anew; the one of number `at` by a function of its operands."""
    env: dict[Var, Any] = dict(zip((*closed.jaxpr.constvars, *closed.jaxpr.invars), (*closed.consts, *args)))

    def read(a: Atom) -> Any:
        return a.value if isinstance(a, Literal) else env[a]

    for i, e in enumerate(closed.jaxpr.eqns):
        operands = [read(a) for a in e.inputs]
        with use_source(e.source):
            out = instead(operands) if i == at else e.primitive.bind(*operands, **e.params)
        env.update(zip(e.outputs, out if isinstance(out, list | tuple) else [out]))
    return [read(a) for a in closed.jaxpr.outvars]


def _unrolled(e: Eqn, body: ClosedJaxpr, operands: Sequence[Any]) -> list[Any]:
    p = e.params
    consts, carry = operands[: p["num_consts"]], list(operands[p["num_consts"] :][: p["num_carry"]])
    xs = operands[p["num_consts"] + p["num_carry"] :]
    rows: list[list[Any]] = []
    turns = range(p["length"])
    for k in reversed(turns) if p["reverse"] else turns:
        out = _bound(body, [*consts, *carry, *(lax.index_in_dim(x, k, keepdims=False) for x in xs)])
        carry = out[: p["num_carry"]]
        rows.append(out[p["num_carry"] :])
    if p["reverse"]:
        rows.reverse()
    stacked = [lax.concatenate([lax.expand_dims(r, (0,)) for r in column], 0) for column in zip(*rows)]
    return [*carry, *stacked]


def _one_turn(e: Eqn, operands: Sequence[Any]) -> list[Any]:
    p = e.params
    n = p["cond_nconsts"]
    return _bound(p["body_jaxpr"], operands[n:])


def _retraced(case: Case, at: int, instead: Any) -> Case | None:
    try:
        with np.errstate(all="ignore"):
            made = quire.make_jaxpr(lambda *xs: _bound(case.closed, xs, at, instead))(*case.values)
    except Exception:
        return None
    return tidy(made, case.values) if not made.consts and made.in_avals == case.closed.in_avals else None


def _sizes(case: Case) -> Iterator[Case | None]:
    """All dimensions of one size, and the parameters of that number, made smaller."""
    sizes = {n for e in all_eqns(case.jaxpr) for a in (*e.inputs, *e.outputs) for n in a.aval.shape if n > 1}
    sizes |= {e.params["length"] for e in all_eqns(case.jaxpr) if "length" in e.params}
    for n in sorted(sizes, reverse=True):
        for m in dict.fromkeys((1, 2, 3, n // 2, n - 1)):
            if 0 < m < n:
                yield _resized(case, n, m)


def _resized(case: Case, n: int, m: int) -> Case | None:
    def of_aval(a: ShapedArray) -> ShapedArray:
        return ShapedArray(tuple(m if d == n else d for d in a.shape), a.dtype, a.weak_type)

    def of_param(x: Any) -> Any:
        if isinstance(x, bool):
            return x
        if isinstance(x, int):
            return m if x == n else x
        if isinstance(x, tuple):
            items: Any = (of_param(y) for y in cast("tuple[Any, ...]", x))
            return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
        if isinstance(x, ClosedJaxpr):
            return ClosedJaxpr(of_jaxpr(x.jaxpr), x.consts)
        if isinstance(x, Jaxpr):
            return of_jaxpr(x)
        return x

    def of_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
        env: dict[Var, Var] = {v: Var(of_aval(v.aval)) for v in (*jaxpr.constvars, *jaxpr.invars)}

        def read(a: Atom) -> Atom:
            return env[a] if isinstance(a, Var) else a

        eqns: list[Eqn] = []
        for e in jaxpr.eqns:
            inputs = [read(a) for a in e.inputs]
            params = {k: of_param(v) for k, v in e.params.items()}
            avals = e.primitive.infer([a.aval for a in inputs], params)
            env.update((v, Var(a)) for v, a in zip(e.outputs, avals))
            eqns.append(e.replace(inputs=inputs, outputs=[env[v] for v in e.outputs], params=params))
        return Jaxpr(
            [env[v] for v in jaxpr.constvars], [env[v] for v in jaxpr.invars], [read(a) for a in jaxpr.outvars], eqns
        )

    try:
        made = of_jaxpr(case.jaxpr)
    except Exception:  # some equation has no meaning with that size
        return None
    values = [x[tuple(slice(0, d) for d in v.aval.shape)] for x, v in zip(case.values, made.invars)]
    return Case(ClosedJaxpr(made), tuple(values))


def _arguments(case: Case) -> Iterator[Case | None]:
    """Two arguments of one type are one."""
    invars = case.jaxpr.invars
    for i, v in enumerate(invars):
        for w in invars[:i]:
            if w.aval == v.aval:
                names: dict[Var, Atom] = {v: w}
                eqns = [
                    e.replace(inputs=[names.get(a, a) if isinstance(a, Var) else a for a in e.inputs])
                    for e in case.jaxpr.eqns
                ]
                out = [names.get(a, a) if isinstance(a, Var) else a for a in case.jaxpr.outvars]
                yield tidy(ClosedJaxpr(Jaxpr((), invars, out, eqns)), case.values)
                break


def _numbers(case: Case) -> Iterator[Case | None]:
    """Literals, also within loops, as small whole numbers."""
    for jaxpr in _numbered(case.jaxpr):
        yield Case(ClosedJaxpr(jaxpr), case.values)


def _numbered(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    for i, e in enumerate(jaxpr.eqns):
        for k, a in enumerate(e.inputs):
            if not isinstance(a, Literal) or a.aval.dtype == dtypes.float0 or dtypes.is_bool(a.aval.dtype):
                continue
            for x in (1, 2):
                new = Literal(np.asarray(x).astype(a.aval.dtype), a.aval)
                if len(str(new.value)) < len(str(a.value)) or (dtypes.is_integer(a.aval.dtype) and a.value > x):
                    yield _with(jaxpr, i, (e.replace(inputs=[*e.inputs[:k], new, *e.inputs[k + 1 :]]),), {})
                    break
        for name, value in e.params.items():
            if isinstance(value, ClosedJaxpr):
                for smaller in _numbered(value.jaxpr):
                    new_params = {**e.params, name: ClosedJaxpr(smaller, value.consts)}
                    yield _with(jaxpr, i, (e.replace(params=new_params),), {})


WAYS: tuple[Callable[[Case], Iterator[Case | None]], ...] = (
    _results, _ends, _cuts, _calls, _sizes, _bypasses, _arguments, _numbers,
)  # fmt: skip
