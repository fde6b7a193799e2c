"""discharge: references become values.

A place that is written to is a value that each equation takes and gives anew: what a loop's body writes becomes a carry, what
a branch or a call writes a further result. Of a program the references are its own, made by `new_ref`; of a nested or traced
function they may be inputs too, which `discharged` turns into values that it takes and, where they are written, gives last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.errors import PassError
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, has_nested, map_nested, nested_jaxprs
from quire.ir.primitives import calls, refs
from quire.ir.primitives import control_flow as cf
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st
from quire.ir.primitives.refs import Indexer
from quire.ir.references import ADD_EFFECT, NEW_EFFECT, REF_EFFECTS, WRITE_EFFECT, AbstractRef
from quire.ir.source import use_source, where
from quire.ir.tracing import no_trace, rebind, trace_flat

from .base import Pass, PassContext, register_pass
from .rebuild import prune
from .reference_indexing import read, write

Value = Any


def is_ref(a: Atom) -> bool:
    """Whether a variable is a reference."""
    return type(a.aval) is AbstractRef


def uses_refs(jaxpr: Jaxpr | ClosedJaxpr) -> bool:
    """Whether a program makes, reads or writes references; nothing is looked at but its effects."""
    return not jaxpr.effects.isdisjoint(REF_EFFECTS)


@register_pass
@dataclass(frozen=True)
class Discharge(Pass):
    """Turn references into values: what loops and branches write is carried and returned.

    The program must take and return no references; programs without any are left as they are.
    """

    name = "discharge"

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        if not uses_refs(program):
            return program
        jaxpr = program.jaxpr
        for v in (*jaxpr.constvars, *jaxpr.invars):
            if is_ref(v):
                raise PassError(
                    f"discharge: the program takes a reference {v.aval.short()}: make it within, with new_ref"
                )
        n = len(jaxpr.constvars)
        opened = Jaxpr((), (*jaxpr.constvars, *jaxpr.invars), jaxpr.outvars, jaxpr.eqns)
        out = discharged(opened, ()).jaxpr
        return ClosedJaxpr(Jaxpr(out.invars[:n], out.invars[n:], out.outvars, out.eqns), program.consts)


def written_refs(jaxpr: Jaxpr | ClosedJaxpr) -> tuple[int, ...]:
    """Which inputs of a jaxpr are references that it writes to, by their numbers, in order."""
    if isinstance(jaxpr, ClosedJaxpr):
        jaxpr = jaxpr.jaxpr
    if jaxpr.effects.isdisjoint((WRITE_EFFECT, ADD_EFFECT)):
        return ()
    written: set[Var] = set()
    for eqn in jaxpr.eqns:
        if eqn.effects.isdisjoint((WRITE_EFFECT, ADD_EFFECT)):
            continue
        if eqn.primitive in (refs.swap_p, refs.addupdate_p):
            assert isinstance(eqn.inputs[0], Var)
            written.add(eqn.inputs[0])
        else:
            written.update(a for a in _written_operands(eqn) if isinstance(a, Var))
    return tuple(i for i, v in enumerate(jaxpr.invars) if v in written)


def _written_operands(eqn: Eqn) -> list[Atom]:
    """The operands that the nested jaxprs of an equation write to."""
    params = eqn.params
    if eqn.primitive in (cf.while_p, cf.bounded_while_p):
        n, m = params["cond_nconsts"], params["body_nconsts"]
        body = [*eqn.inputs[n : n + m], *eqn.inputs[n + m :]]
        test = [*eqn.inputs[:n], *eqn.inputs[n + m :]]
        return [body[i] for i in written_refs(params["body_jaxpr"])] + [
            test[i] for i in written_refs(params["cond_jaxpr"])
        ]
    first = 1 if eqn.primitive is cf.cond_p else 0
    return [eqn.inputs[first + i] for inner in nested_jaxprs(params) for i in written_refs(inner)]


def live_refs(jaxpr: Jaxpr | ClosedJaxpr) -> tuple[int, ...]:
    """Which inputs are references that a function with a rule of the user's for its derivative takes as arguments.

    What such a rule does with them happens when the derivative is computed.
    """
    if isinstance(jaxpr, ClosedJaxpr):
        jaxpr = jaxpr.jaxpr
    given = {v for v in jaxpr.invars if is_ref(v)}
    if not given:
        return ()
    live: set[Atom] = set()
    for eqn in jaxpr.eqns:
        if given.isdisjoint(eqn.inputs):
            continue
        rule = _NESTED.get(eqn.primitive.name)
        if rule is _ruled_call:
            live.update(given.intersection(eqn.inputs[eqn.params["num_consts"] :]))
        elif rule is not None:
            live.update(_live_operands(eqn))
    return tuple(i for i, v in enumerate(jaxpr.invars) if v in live)


def _live_operands(eqn: Eqn) -> list[Atom]:
    """The references among the operands that functions within the nested jaxprs take so."""
    if eqn.primitive in (cf.while_p, cf.bounded_while_p):
        n = eqn.params["cond_nconsts"]
        return [eqn.inputs[n + i] for i in live_refs(eqn.params["body_jaxpr"])]
    first = 1 if eqn.primitive is cf.cond_p else 0
    return list(dict.fromkeys(eqn.inputs[first + i] for j in nested_jaxprs(eqn.params) for i in live_refs(j)))


def discharged(
    jaxpr: Jaxpr, written: Sequence[int] | None = None, memo: dict[Any, Any] | None = None, *, derivatives: bool = False,
    live: Sequence[int] | None = None,
) -> ClosedJaxpr:  # fmt: skip
    """The jaxpr on values: it takes the values of references that were inputs, and gives those that it wrote last.

    Args:
        jaxpr: it has no constants.
        written: the inputs whose final values are given; None: those of `written_refs`.
        memo: what has been made of nested jaxprs, for several that share them.
        derivatives: it is to be differentiated: functions with rules of the user's are kept, and the references of `live`
            are inputs as they were too, after all others.
        live: those; None: those of `live_refs`, none without `derivatives`.

    Raises:
        NotImplementedError: an equation has nested jaxprs that use references, and there is no rule for it.
        ValueError: a reference is returned, or is used where it cannot be.
    """
    written = written_refs(jaxpr) if written is None else tuple(written)
    memo = {} if memo is None else memo
    if live is None:
        live = live_refs(jaxpr) if derivatives else ()
    key = (id(jaxpr), written, derivatives, tuple(live))
    if key not in memo:
        memo[key] = (
            _Discharge(memo, derivatives).jaxpr(jaxpr, written, tuple(live)),
            jaxpr,
        )  # the jaxpr, that its id stays its own
    return memo[key][0]


class _Discharge:
    """The values of the references of one function while its equations are copied."""

    def __init__(self, memo: dict[Any, Any], derivatives: bool) -> None:
        self.memo = memo
        self.derivatives = derivatives
        self.live: dict[Atom, Value] = {}  # references that stay, for rules of derivatives
        self.env: dict[Var, Value] = {}
        self.places: dict[Var, Value] = {}

    def jaxpr(self, jaxpr: Jaxpr, written: tuple[int, ...], live: tuple[int, ...]) -> ClosedJaxpr:
        avals = [v.aval.inner_aval if is_ref(v) else v.aval for v in jaxpr.invars]
        kept = [jaxpr.invars[i] for i in live]

        def flat(*values: Value) -> list[Value]:
            self.live.update(zip(kept, values[len(avals) :], strict=True))
            for v, x in zip(jaxpr.invars, values):
                (self.places if is_ref(v) else self.env)[v] = x
            for eqn in jaxpr.eqns:
                self.eqn(eqn)
            for a in jaxpr.outvars:
                if is_ref(a):
                    raise ValueError(
                        f"discharge: a reference {a.aval.short()} is returned: return what it holds, ref[...]"
                    )
            outs = [_as_type(self.value(a), a.aval) for a in jaxpr.outvars]
            return [*outs, *(self.places[jaxpr.invars[i]] for i in written)]

        with no_trace():
            traced, captured, _ = trace_flat(flat, [*avals, *(v.aval for v in kept)], name="discharge")
        assert not captured, "a jaxpr without constants captures nothing"
        return ClosedJaxpr(prune(traced), ())  # what a write replaced is mostly not looked at

    def value(self, a: Atom) -> Value:
        return a if isinstance(a, Literal) else self.env[a]

    def place(self, a: Atom, eqn: Eqn) -> Value:
        """What a reference holds now. Raises ValueError where it was freed."""
        found = self.places.get(a) if isinstance(a, Var) else None
        if found is None:
            raise ValueError(f"{eqn.primitive.name}: the reference was freed, or is none{where(eqn.source)}")
        return found

    def eqn(self, eqn: Eqn) -> None:
        p = eqn.primitive
        if p.family == "refs":
            with use_source(eqn.source):
                out = self.own(eqn)
        elif has_nested(eqn.params) and (not eqn.effects.isdisjoint(REF_EFFECTS) or any(map(is_ref, eqn.inputs))):
            with use_source(eqn.source):
                out = self.nested(eqn)
        elif any(map(is_ref, eqn.inputs)):
            raise NotImplementedError(
                f"{p.name} takes a reference{where(eqn.source)}, and discharge has no rule for it"
            )
        else:
            out = rebind(eqn, [self.value(a) for a in eqn.inputs])
        for v, x in zip(eqn.outputs, out, strict=True):
            (self.places if is_ref(v) else self.env)[v] = x

    # -- the primitives of references

    def own(self, eqn: Eqn) -> Sequence[Value]:
        p, params = eqn.primitive, eqn.params
        if p is refs.new_ref_p:
            return [self.value(eqn.inputs[0])]
        if p is refs.empty_ref_p:
            ty: ShapedArray = params["ty"]
            return [st.full(ty.shape, np.zeros((), ty.dtype)[()])]
        ref = eqn.inputs[0]
        held = self.place(ref, eqn)
        assert isinstance(ref, Var)
        if p in (refs.freeze_p, refs.free_ref_p):
            del self.places[ref]
            return [held] if p is refs.freeze_p else []
        indexers: tuple[Indexer, ...] = params["indexers"]
        if p is refs.get_p:
            return [read(held, indexers, [self.value(a) for a in eqn.inputs[1:]])]
        value, *indices = (self.value(a) for a in eqn.inputs[1:])
        old = [] if p is refs.addupdate_p else [read(held, indexers, indices)]
        new = write(held, indexers, indices, value, add=p is refs.addupdate_p)
        new = _as_type(new, ref.aval.inner_aval)
        self.places[ref] = new if ref.aval.kind is None or isinstance(new, Literal) else ew.stop_gradient(new)
        return old

    # -- equations with nested jaxprs

    def nested(self, eqn: Eqn) -> Sequence[Value]:
        given = [a for a in eqn.inputs if is_ref(a)]
        p = eqn.primitive
        if p not in (cf.while_p, cf.bounded_while_p) and len(set(given)) < len(given):
            raise ValueError(
                f"{p.name}: one reference was given twice, or closed over and given too{where(eqn.source)}: only one name of "
                "a reference may be used in a function"
            )
        rule = _NESTED.get(p.name)
        if rule is None:
            raise NotImplementedError(
                f"{p.name}: its function uses a reference from outside, or makes one{where(eqn.source)}, which is not "
                "possible there: give it the value, ref[...], and return what is to be stored"
            )
        return rule(self, eqn)

    def held(self, atoms: Sequence[Atom], eqn: Eqn) -> list[Value]:
        """Operands, with what references hold in place of these."""
        return [self.place(a, eqn) if is_ref(a) else self.value(a) for a in atoms]

    def store(self, atoms: Sequence[Atom], values: Sequence[Value]) -> None:
        """The new values of references."""
        for a, x in zip(atoms, values, strict=True):
            assert isinstance(a, Var)
            self.places[a] = _as_type(x, a.aval.inner_aval)

    def inner(
        self, closed: ClosedJaxpr, written: Sequence[int] | None = None, live: Sequence[int] | None = None
    ) -> ClosedJaxpr:
        return discharged(closed.jaxpr, written, self.memo, derivatives=self.derivatives, live=live)

    def kept(self, atoms: Sequence[Atom], live: Sequence[int], eqn: Eqn) -> list[Value]:
        """The operands that stay references."""
        missing = [i for i in live if atoms[i] not in self.live]
        if missing:
            raise NotImplementedError(
                f"{eqn.primitive.name}: a function with a rule of its own for the derivative takes a reference that was made "
                f"within the function that is differentiated{where(eqn.source)}: make the reference outside of that"
            )
        return [self.live[atoms[i]] for i in live]


class _OwnOnly(_Discharge):
    """As above of the references that the function makes; those that it is given stay."""

    def jaxpr(self, jaxpr: Jaxpr, written: tuple[int, ...] = (), live: tuple[int, ...] = ()) -> ClosedJaxpr:
        def flat(*values: Value) -> list[Value]:
            self.env.update(zip(jaxpr.invars, values, strict=True))
            for eqn in jaxpr.eqns:
                self.eqn(eqn)
            return [_as_type(self.value(a), a.aval) for a in jaxpr.outvars]

        with no_trace():
            traced, captured, _ = trace_flat(flat, [v.aval for v in jaxpr.invars], name="discharge")
        assert not captured, "a jaxpr without constants captures nothing"
        return ClosedJaxpr(prune(traced), ())

    def eqn(self, eqn: Eqn) -> None:
        p = eqn.primitive
        if p in (refs.new_ref_p, refs.empty_ref_p) or any(a in self.places for a in eqn.inputs if isinstance(a, Var)):
            if any(is_ref(a) and a in self.env for a in eqn.inputs):
                raise NotImplementedError(
                    f"{p.name}: a rule of a derivative uses references of its own and from outside in one "
                    f"function{where(eqn.source)}: take that apart, or give it the values, ref[...]"
                )
            super().eqn(eqn)
            return
        values = [self.value(a) for a in eqn.inputs]
        if NEW_EFFECT not in eqn.effects:
            out = rebind(eqn, values)
        else:
            with use_source(eqn.source):
                found = p.bind(*values, **map_nested(eqn.params, lambda c: ClosedJaxpr(without_own_refs(c.jaxpr))))
            out = found if p.multiple_results else [found]
        self.env.update(zip(eqn.outputs, out, strict=True))


def without_own_refs(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr without the references that it makes; those that it is given stay, and so do equations on them.

    Raises:
        NotImplementedError: a nested jaxpr uses references of both kinds.
    """
    return _OwnOnly({}, True).jaxpr(jaxpr).jaxpr if NEW_EFFECT in jaxpr.effects else jaxpr


def _call(self: _Discharge, eqn: Eqn) -> Sequence[Value]:
    """A call that holds one jaxpr, which takes the operands."""
    closed: ClosedJaxpr = eqn.params["jaxpr"]
    written = written_refs(closed)
    live = live_refs(closed) if self.derivatives else ()
    body = self.inner(closed, written, live)
    values = [*self.held(eqn.inputs, eqn), *self.kept(eqn.inputs, live, eqn)]
    more = {"donated_invars": (False,) * len(values)} if eqn.primitive is calls.jit_p else {}
    out = eqn.primitive.bind(*values, **{**eqn.params, "jaxpr": body, **more})
    n = len(eqn.outputs)
    self.store([eqn.inputs[i] for i in written], out[n:])
    return out[:n]


def _ruled_call(self: _Discharge, eqn: Eqn) -> Sequence[Value]:
    """A call of a function with a rule of the user's, who knows nothing of values in place of references."""
    closed: ClosedJaxpr = eqn.params["call_jaxpr"]
    written = written_refs(closed)
    if not any(map(is_ref, eqn.inputs)):
        values = self.held(eqn.inputs, eqn)
        return eqn.primitive.bind(*values, **{**eqn.params, "call_jaxpr": self.inner(closed, ())})
    if not self.derivatives:  # the rule is not asked any more
        body = self.inner(closed, written)
        values = self.held(eqn.inputs, eqn)
        donated = (False,) * len(values)
        out = calls.jit_p.bind(
            *values, name=eqn.params["name"], jaxpr=body, inline=False, donated_invars=donated
        )  # fmt: skip
        n = len(eqn.outputs)
        self.store([eqn.inputs[i] for i in written], out[n:])
        return out[:n]
    if written:
        raise NotImplementedError(
            f"{eqn.primitive.name} {eqn.params['name']}: the function writes to a reference from outside{where(eqn.source)}, "
            "and has a rule of its own for the derivative: write to it in the rule, or in a function without one"
        )
    n = eqn.params["num_consts"]
    if any(
        i < len(closed.jaxpr.invars) and _reads(closed.jaxpr, i)
        for i in range(n, len(eqn.inputs))
        if is_ref(eqn.inputs[i])
    ):
        raise NotImplementedError(
            f"{eqn.primitive.name} {eqn.params['name']}: the function reads a reference that it is given"
            f"{where(eqn.source)}, and has a rule of its own for the derivative: let it close over the reference, or give it "
            "the value, ref[...]"
        )
    # Those that it closes over it only reads: their values; its arguments go to the rule as they are.
    consts = self.held(eqn.inputs[:n], eqn)
    kept = [i for i in range(n, len(eqn.inputs)) if is_ref(eqn.inputs[i])]
    references = iter(self.kept(eqn.inputs, kept, eqn))
    args = [next(references) if is_ref(a) else self.value(a) for a in eqn.inputs[n:]]
    body = self.inner(closed, (), kept).jaxpr
    # The references that stay come last, and their values are not looked at.
    own = dict(zip(kept, body.invars[len(eqn.inputs) :], strict=True))
    invars = [own.get(i, v) for i, v in enumerate(body.invars[: len(eqn.inputs)])]
    new = ClosedJaxpr(Jaxpr((), invars, body.outvars, body.eqns))
    return eqn.primitive.bind(*consts, *args, **{**eqn.params, "call_jaxpr": new})


def _reads(jaxpr: Jaxpr, i: int) -> bool:
    """Whether an input is read or written by an equation."""
    return any(jaxpr.invars[i] in eqn.inputs for eqn in jaxpr.eqns)


def _cond(self: _Discharge, eqn: Eqn) -> Sequence[Value]:
    branches: tuple[ClosedJaxpr, ...] = eqn.params["branches"]
    written = sorted({i for b in branches for i in written_refs(b)})
    live = sorted({i for b in branches for i in live_refs(b)}) if self.derivatives else []
    index, *values = [*self.held(eqn.inputs, eqn), *self.kept(eqn.inputs[1:], live, eqn)]
    new = tuple(self.inner(b, written, live) for b in branches)
    out = cf.cond_p.bind(index, *values, **{**eqn.params, "branches": new})
    n = len(eqn.outputs)
    self.store([eqn.inputs[1 + i] for i in written], out[n:])
    return out[:n]


def _reordered(body: ClosedJaxpr, inputs: Sequence[int], outputs: Sequence[int]) -> ClosedJaxpr:
    """A jaxpr whose inputs and results are taken in another order."""
    j = body.jaxpr
    return ClosedJaxpr(Jaxpr((), [j.invars[i] for i in inputs], [j.outvars[i] for i in outputs], j.eqns))


def _scan(self: _Discharge, eqn: Eqn) -> Sequence[Value]:
    """References among the consts that the body writes are carried; of those among the xs each turn writes its own part."""
    p = eqn.params
    n_consts, n_carry = p["num_consts"], p["num_carry"]
    first_x = n_consts + n_carry
    written = written_refs(p["jaxpr"])
    if any(n_consts <= i < first_x or is_ref(eqn.inputs[i]) for i in range(n_consts, first_x) if is_ref(eqn.inputs[i])):
        raise ValueError(
            f"scan: a reference cannot be carried{where(eqn.source)}: let the body close over it, and write to it there"
        )
    live = live_refs(p["jaxpr"]) if self.derivatives else ()
    body = self.inner(p["jaxpr"], written, live)
    values = [*self.held(eqn.inputs, eqn), *self.kept(eqn.inputs, live, eqn)]
    carried = [i for i in written if i < n_consts]
    parts = [i for i in written if i >= first_x]
    # What stays a reference is a const too; its value comes last among the operands here.
    consts = [*(i for i in range(n_consts) if i not in carried), *range(len(eqn.inputs), len(values))]
    xs = range(first_x, len(eqn.inputs))
    inputs = [*consts, *carried, *range(n_consts, first_x), *xs]
    n_out = len(eqn.outputs)
    at = {i: n_out + k for k, i in enumerate(written)}  # where the body gives what it wrote
    outputs = [*(at[i] for i in carried), *range(n_out), *(at[i] for i in parts)]
    body = _reordered(body, inputs, outputs)
    out = cf.scan_p.bind(
        *(values[i] for i in inputs), jaxpr=body, length=p["length"], reverse=p["reverse"],
        linear=(False,) * len(inputs), num_consts=len(consts), num_carry=len(carried) + n_carry, unroll=p["unroll"],
    )  # fmt: skip
    k = len(carried)
    self.store([eqn.inputs[i] for i in carried], out[:k])
    self.store([eqn.inputs[i] for i in parts], out[k + n_out :])
    return out[k : k + n_out]


def _while(self: _Discharge, eqn: Eqn) -> Sequence[Value]:
    """What the body writes is carried; the condition reads it from the carry."""
    p = eqn.params
    n_test, n_body = p["cond_nconsts"], p["body_nconsts"]
    test, body, carry = eqn.inputs[:n_test], eqn.inputs[n_test : n_test + n_body], eqn.inputs[n_test + n_body :]
    if any(map(is_ref, carry)):
        raise ValueError(
            f"{eqn.primitive.name}: a reference cannot be carried{where(eqn.source)}: let the body close over it"
        )
    if written_refs(p["cond_jaxpr"]):
        raise NotImplementedError(
            f"{eqn.primitive.name}: the condition writes to a reference{where(eqn.source)}: write to it in the body"
        )
    written = written_refs(p["body_jaxpr"])
    places = [body[i] for i in written]
    if len(set(places)) < len(places):
        raise ValueError(f"{eqn.primitive.name}: one reference was given twice{where(eqn.source)}")
    new_test, new_body = self.inner(p["cond_jaxpr"], (), ()), self.inner(p["body_jaxpr"], written, ())
    kept = [i for i in range(n_body) if i not in written]
    n = len(carry)
    step = _reordered(new_body, [*kept, *written, *range(n_body, n_body + n)], [*range(n, n + len(written)), *range(n)])
    # The condition's inputs: what is left of its consts, what is carried for the body, its own carry.
    own = [i for i in range(n_test) if test[i] not in places]
    j = new_test.jaxpr
    carried: list[Var] = []
    for a in places:
        same = [j.invars[i] for i in range(n_test) if test[i] is a]
        aval: Any = a.aval
        carried.append(same[0] if same else Var(aval.inner_aval))
    condition = ClosedJaxpr(Jaxpr((), [*(j.invars[i] for i in own), *carried, *j.invars[n_test:]], j.outvars, j.eqns))
    params: dict[str, Any] = {
        **p, "cond_jaxpr": condition, "body_jaxpr": step, "cond_nconsts": len(own), "body_nconsts": len(kept),
    }  # fmt: skip
    out = eqn.primitive.bind(
        *self.held([test[i] for i in own], eqn), *self.held([body[i] for i in kept], eqn), *self.held(places, eqn),
        *self.held(carry, eqn), **params,
    )  # fmt: skip
    k = len(places)
    self.store(places, out[:k])
    return out[k:]


def _shard_map(self: _Discharge, eqn: Eqn) -> Sequence[Value]:
    """References of each device's own become values; one from outside is divided as its operand is, also when it is put back.

    Of one that several devices hold, what is written is equal on all of them, as of results.
    """
    closed: ClosedJaxpr = eqn.params["jaxpr"]
    written, in_specs = written_refs(closed), eqn.params["in_specs"]
    out_specs = (*eqn.params["out_specs"], *(in_specs[i] for i in written))
    body = self.inner(closed, written, ())
    out = eqn.primitive.bind(
        *self.held(eqn.inputs, eqn), **{**eqn.params, "jaxpr": body, "out_specs": out_specs}
    )  # fmt: skip
    n = len(eqn.outputs)
    self.store([eqn.inputs[i] for i in written], out[n:])
    return out[:n]


_NESTED: dict[str, Callable[[_Discharge, Eqn], Sequence[Value]]] = {
    "jit": _call, "checkpoint": _call, "custom_jvp_call": _ruled_call, "custom_vjp_call": _ruled_call,
    "custom_vmap_call": _ruled_call, "cond": _cond, "shard_map": _shard_map, "scan": _scan, "while": _while, "bounded_while": _while,
}  # fmt: skip


def _as_type(x: Value, aval: ShapedArray) -> Value:
    """A value with exactly a type: its weak type may be another."""
    if isinstance(x, Literal):
        return x if x.aval is aval else Literal(x.value, aval)
    if aval_of(x).weak_type == aval.weak_type:
        return x
    return ew.convert_element_type(x, aval.dtype, aval.weak_type)
