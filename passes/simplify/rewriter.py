"""The engine of `simplify`: it goes through the equations once, in order, and applies rules to each until none fires.

Operands are simplified already when an equation is looked at, so a rule sees through them with `producer`. What a
rule leaves unused is removed by dce.

Most equations match no rule. A rule says `when` it can match at all, by traits that the engine finds out once for each
equation: that an operand is a number, or the result of some primitive. Only the rules of a trait that is there are tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quire.ir.avals import ShapedArray
from quire.ir.extensions import note
from quire.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var, subst_eqn
from quire.ir.primitive import Primitive
from quire.ir.primitives import structural

from ..base import PassContext
from ..rewriting import transform_nested, with_params

# What a rule returns: the atoms for the equation's outputs, or one atom for one output; None: it does not apply.
Rewrite = Atom | Sequence[Atom] | None
RuleFunction = Callable[["Rewriter", Eqn], Rewrite]


class Trait:
    """What an equation may have that a rule needs; a bit, so that an equation's traits are one number."""

    _bits = itertools.count()

    def __init__(self, doc: str) -> None:
        self.doc = doc
        self.bit = 1 << next(self._bits)


NUMBER = Trait("an operand is a literal, or repeats one")
SPREAD = Trait("an operand repeats a scalar")
SAME = Trait("the first and the last operand are one value")
SCALAR = Trait("the results are scalars")
_MADE_BY: dict[Primitive, Trait] = {}  # an operand is the result of the primitive


def made_by(p: Primitive) -> Trait:
    """The trait that an operand is the result of a primitive."""
    if p not in _MADE_BY:
        _MADE_BY[p] = Trait(f"an operand is made by {p.name}")
    return _MADE_BY[p]


@dataclass(frozen=True)
class Rule:
    """A named rule for the equations of some primitives; with `when`, for those that have one of these traits."""

    name: str
    apply: RuleFunction
    when: tuple[Trait, ...] | None = None
    origin: str = ""  # the module that it is from; by default that of its function
    bits: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "origin", self.origin or self.apply.__module__)
        object.__setattr__(self, "bits", -1 if self.when is None else sum({t.bit for t in self.when}))


RULES: dict[Primitive, list[Rule]] = {}
"""The rules by the primitive of the equation that they replace."""


def rule(
    *primitives: Primitive, when: Iterable[Trait | Primitive] | None = None
) -> Callable[[RuleFunction], RuleFunction]:
    """Decorator: a rule for equations of these primitives, named as the function.

    `when` names the traits of which one must be there; a primitive stands for an operand that it makes.
    """
    traits = None if when is None else tuple(made_by(t) if isinstance(t, Primitive) else t for t in when)

    def register(f: RuleFunction) -> RuleFunction:
        add_rule(Rule(f.__name__.replace("_", " "), f, traits), *primitives)
        return f

    return register


def add_rule(r: Rule, *primitives: Primitive) -> None:
    """Register a rule. One of another package's becomes part of every program's key."""
    note(r.origin)
    for p in primitives:
        RULES.setdefault(p, []).append(r)


# An equation without any trait still has those rules tried that name none.
_PLAIN = Trait("any equation").bit


# Rules may feed each other; more than this on one equation would be a loop between two of them.
_FUEL = 64


class Rewriter:
    """The state of one jaxpr's simplification, and what rules may ask and build."""

    def __init__(
        self, jaxpr: Jaxpr, context: PassContext, known: dict[Var, np.ndarray[Any, Any]], slices: bool = False
    ) -> None:
        self.jaxpr = jaxpr
        self.slices = slices  # whether they go to what is computed
        self.made: dict[Any, Atom] = {}  # what rules have made, by what it is, for those who would make the same
        self.context = context
        self.known = known  # values of constants
        self.eqns: list[Eqn] = []
        self.env: dict[Var, Atom] = {}
        self.producers: dict[Var, Eqn] = {}
        self.source: Any = None
        self.changed = False
        self.fuel = _FUEL
        self.uses: dict[Var, int] = {}
        for eqn in jaxpr.eqns:
            for a in eqn.inputs:
                if isinstance(a, Var):
                    self.uses[a] = self.uses.get(a, 0) + 1
        for a in jaxpr.outvars:
            if isinstance(a, Var):
                self.uses[a] = self.uses.get(a, 0) + 1

    # -- what rules ask

    def producer(self, a: Atom, *primitives: Primitive) -> Eqn | None:
        """The equation that computes the atom, if it applies one of these primitives (any, if none are given)."""
        eqn = self.producers.get(a) if isinstance(a, Var) else None
        return eqn if eqn is not None and (not primitives or eqn.primitive in primitives) else None

    def value(self, a: Atom) -> np.ndarray[Any, Any] | None:
        """The value of a literal or of a known constant."""
        return a.value if isinstance(a, Literal) else self.known.get(a)

    def splat(self, a: Atom) -> Literal | None:
        """The literal that every element equals: the atom itself, or what it broadcasts."""
        if isinstance(a, Literal):
            return a
        source = self.broadcast_source(a)
        return source if isinstance(source, Literal) else None

    def broadcast_source(self, a: Atom) -> Atom | None:
        """The scalar that the atom broadcasts, or the atom if it is a scalar."""
        if not a.aval.shape:
            return a
        eqn = self.producer(a, structural.broadcast_in_dim_p)
        return eqn.inputs[0] if eqn is not None and not eqn.inputs[0].aval.shape else None

    def single_use(self, a: Atom) -> bool:
        """Whether the program reads the atom once."""
        return isinstance(a, Var) and self.uses.get(a, 0) <= 1

    def read_again(self, a: Atom) -> None:
        """Another equation will read the atom, and those that do now stay."""
        if isinstance(a, Var):
            self.uses[a] = self.uses.get(a, 0) + 1

    # -- what rules build

    def literal(self, value: Any, like: ShapedArray) -> Literal:
        """A scalar literal of the aval's dtype and weak type."""
        return Literal(np.asarray(value).astype(like.dtype), ShapedArray((), like.dtype, like.weak_type))

    def full(self, value: Any, aval: ShapedArray) -> Atom:
        """An array of one value with that aval."""
        return self.broadcast(self.literal(value, aval), aval)

    def broadcast(self, a: Atom, aval: ShapedArray) -> Atom:
        """A scalar broadcast to the aval's shape; anything else as it is."""
        if a.aval.shape == aval.shape or a.aval.shape:
            return a
        return self.emit(structural.broadcast_in_dim_p, [a], shape=aval.shape, broadcast_dimensions=())

    def emit(self, p: Primitive, inputs: Sequence[Atom], **params: Any) -> Atom:
        """The result of a new equation (simplified in its turn), of a primitive with one result."""
        (out,) = self.emit_all(p, inputs, params)
        return out

    def emit_all(self, p: Primitive, inputs: Sequence[Atom], params: Any) -> Sequence[Atom]:
        """The results of a new equation."""
        avals = p.infer([a.aval for a in inputs], params)
        eqn = Eqn(inputs, [Var(a) for a in avals], p, params, p.effects(params), self.source)
        return self.simplified(eqn)

    # -- the engine

    def traits(self, eqn: Eqn) -> int:
        """The bits of an equation's traits."""
        found = _PLAIN
        for a in eqn.inputs:
            if isinstance(a, Literal):
                found |= NUMBER.bit
                continue
            made = self.producers.get(a)
            if made is None:
                continue
            trait = _MADE_BY.get(made.primitive)
            if trait is not None:
                found |= trait.bit
            if made.primitive is structural.broadcast_in_dim_p and not made.inputs[0].aval.shape:
                found |= SPREAD.bit | (NUMBER.bit if isinstance(made.inputs[0], Literal) else 0)
        if len(eqn.inputs) > 1 and eqn.inputs[0] == eqn.inputs[-1]:
            found |= SAME.bit
        if not any(v.aval.shape for v in eqn.outputs):
            found |= SCALAR.bit
        return found

    def simplified(self, eqn: Eqn) -> Sequence[Atom]:
        """Add the equation, or what a rule makes of it; returns the atoms of its outputs."""
        rules = RULES.get(eqn.primitive)
        if rules is not None and self.fuel > 0 and self.context.may_rewrite():
            traits = self.traits(eqn)
            for r in rules:
                if not r.bits & traits:
                    continue
                mark = len(self.eqns)
                self.fuel -= 1
                new = r.apply(self, eqn)
                if new is not None:
                    atoms: Sequence[Atom] = [new] if isinstance(new, Var | Literal) else new
                    if all(a.aval is v.aval for a, v in zip(atoms, eqn.outputs, strict=True)):
                        self.context.rewrote(r.name, eqn)
                        self.changed = True
                        return atoms
                self.fuel += 1
                for dropped in self.eqns[mark:]:  # the rule did not apply after all
                    for v in dropped.outputs:
                        self.producers.pop(v, None)
                del self.eqns[mark:]
                self.made.clear()
        self.eqns.append(eqn)
        for v in eqn.outputs:
            self.producers[v] = eqn
        return eqn.outputs

    def run(self) -> Jaxpr:
        """The simplified jaxpr; the old one if no rule fired."""
        for old in self.jaxpr.eqns:
            eqn = subst_eqn(old, self.env)
            params = transform_nested(eqn.params, self.context, "simplify", self.nested)
            if params is not eqn.params:
                self.changed = True
                eqn = with_params(eqn, params)
            self.source, self.fuel = eqn.source, _FUEL
            results = self.simplified(eqn)
            if results is not eqn.outputs:
                for v, a in zip(old.outputs, results):
                    if v is not a:
                        self.env[v] = a
                        if isinstance(a, Var):  # what read the old value reads this one
                            self.uses[a] = self.uses.get(a, 0) + self.uses.get(v, 0)
        if not self.changed:
            return self.jaxpr
        outvars = [self.env.get(a, a) if isinstance(a, Var) else a for a in self.jaxpr.outvars]
        return Jaxpr(self.jaxpr.constvars, self.jaxpr.invars, outvars, self.eqns)

    def nested(self, jaxpr: Jaxpr) -> Jaxpr:
        """A nested jaxpr, simplified for itself."""
        return Rewriter(jaxpr, self.context, {}, self.slices).run()
