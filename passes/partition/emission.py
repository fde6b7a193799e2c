"""The per-rank program: each equation computed on parts, with what has to be communicated before and after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.jaxpr import Atom, Eqn, Literal, Var
from quire.ir.primitives import collectives as co
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import sharding as sh
from quire.ir.primitives import structural as st
from quire.ir.source import use_source

from . import moves
from .choice import Choice, Chooser, Way, combination, reduced_axes
from .costs import MACHINE, Machine
from .halos import Slide
from .notes import noted
from .propagation import Body, factors_of
from .rules import Assignment, Factors, emissions
from .specs import Axes, Sizes, Spec, local_shape, parts, replicated, show

Value = Any
Held = tuple[Value, Spec]
"""A device's part of a value, and how the value is divided."""


class Place:
    """Where an equation is computed: what the rules of `emissions` ask."""

    index_dtype = dtypes.int32

    def __init__(self, emitter: Emitter, eqn: Eqn, f: Factors, way: Way, operands: Sequence[Value]) -> None:
        self.emitter = emitter
        self.eqn = eqn
        self.factors = f
        self.assignment: Assignment = way.assignment
        self.operand_specs = way.needs
        self.result_specs = way.gives
        self.operands = list(operands)
        self.sent: dict[Any, tuple[Value, Value]] = {}  # what was sent of which value, by the message
        sizes = emitter.sizes
        self.result_shapes = [local_shape(v.aval.shape, s, sizes) for v, s in zip(eqn.outputs, way.gives, strict=True)]

    def bind(self, *operands: Value, **changes: Any) -> list[Value]:
        """The primitive on parts; without operands on those that there are, with the parameters for parts."""
        values = operands or self.operands
        params = dict(self.eqn.params)
        if self.factors.params is not None:
            params.update(self.factors.params([aval_of(x).shape for x in self.operands], self.result_shapes))
        params.update(changes)
        out = self.eqn.primitive.bind(*values, **params)
        return list(out) if self.eqn.primitive.multiple_results else [out]

    def block(self, factor: int) -> Value:
        """The number of this device's part of a factor."""
        return moves.block_index(self.assignment[factor], self.emitter.sizes)

    def slides(self, operand: int) -> list[Slide]:
        """How an operand is read along the dimensions that are divided."""
        return [s for s in self.factors.slides if s.operand == operand and s.factor in self.assignment]

    def count(self, factor: int) -> int:
        """Into how many parts a factor is divided."""
        return parts(self.assignment.get(factor, ()), self.emitter.sizes)

    def emitter_count(self, axes: Axes) -> int:
        """Into how many parts some axes divide."""
        return parts(axes, self.emitter.sizes)

    def begin(self, factor: int) -> Value:
        """The index at which this device's part of a factor begins."""
        size = -(-self.factors.sizes[factor] // parts(self.assignment[factor], self.emitter.sizes))
        return ew.mul(self.block(factor), np.int32(size))

    def start(self, result: int, dim: int) -> Value:
        """The index at which this device's part of a result's dimension begins."""
        axes = self.result_specs[result][dim]
        return ew.mul(moves.block_index(axes, self.emitter.sizes), np.int32(self.result_shapes[result][dim]))

    def masked(self, x: Value, operand: int, dim: int, neutral: Any) -> Value:
        """The operand with its padding along an uneven dimension replaced."""
        n = self.eqn.inputs[operand].aval.shape[dim]
        axes = self.operand_specs[operand][dim]
        shape = aval_of(x).shape
        if n % parts(axes, self.emitter.sizes) == 0:
            return x
        start = ew.mul(moves.block_index(axes, self.emitter.sizes), np.int32(shape[dim]))
        numbers = st.iota_p.bind(dtype=dtypes.int32, shape=shape, dimension=dim)
        inside = ew.lt(numbers, ew.sub(np.int32(n), start))
        return ew.select_n(inside, st.full(shape, neutral), x)

    def gathered(self, x: Value, factor: int, dim: int, reason: str) -> Value:
        """What all parts of a factor hold, along one dimension in their order."""
        for a in reversed(self.assignment[factor]):
            x = self.emitter.all_gather(x, a, dim, f"{self.eqn.primitive.name}: {reason}")
        return x


class Emitter:
    """Writes a per-rank program into the current trace."""

    def __init__(self, sizes: Sizes, machine: Machine = MACHINE) -> None:
        self.sizes = sizes
        self.machine = machine
        self.chooser = Chooser(sizes, machine)
        self.eqn: Eqn | None = None
        self.other = ""

    # -- communication

    def noted(self, reason: str) -> AbstractContextManager[None]:
        """A block whose collectives are there for a reason."""
        source = self.eqn.source if self.eqn is not None else None
        return use_source(noted(source, reason, self.other))

    def all_gather(self, x: Value, axis: Any, dim: int, reason: str) -> Value:
        """All parts along one axis, joined along a dimension."""
        with self.noted(reason):
            return co.all_gather_p.bind(
                x, axis_name=axis, all_gather_dimension=dim, axis_size=self.sizes[axis], tiled=True
            )

    def ppermute(self, x: Value, axes: Axes, pairs: Any, reason: str) -> Value:
        """What the sender of each pair (sender, receiver) holds; zeros where nothing is sent."""
        with self.noted(reason):
            return co.ppermute_p.bind(x, axis_name=axes[0] if len(axes) == 1 else axes, perm=tuple(pairs))

    def moved(self, held: Held, aval: ShapedArray, target: Spec, what: str) -> Value:
        """The value divided in another way."""
        x, source = held
        if source == target:
            return x
        steps = moves.plan(aval.shape, source, target, self.sizes)
        with self.noted(f"{what}: {show(source)} to {show(target)}"):
            return moves.apply(x, steps, aval.shape, self.sizes)

    def combined(self, x: Value, monoid: str, axes: Axes, reason: str) -> Value:
        """The parts' values combined over some axes; every device gets it."""
        aval = aval_of(x)
        kind = _COMBINING.get(monoid)
        if monoid in ("and", "or") and dtypes.is_bool(aval.dtype):
            kind = co.pmin_p if monoid == "and" else co.pmax_p
        if kind is not None and not (dtypes.is_complex(aval.dtype) and kind is not co.psum_p):
            with self.noted(reason):
                return kind.bind(x, axes=axes)
        # Products and the like have no collective: everything is gathered and combined by each device.
        x = st.broadcast_in_dim(x, (1, *aval.shape), tuple(range(1, aval.ndim + 1)))
        for a in axes:
            x = self.all_gather(x, a, 0, reason)
        return rd.MONOIDS[monoid].reduction.bind(x, axes=(0,))

    # -- programs

    def run(self, body: Body, args: Sequence[Held]) -> list[Held]:
        """Compute a jaxpr on parts; its results as they come."""
        return Run(self, body).run(args)


_COMBINING: dict[str, Any] = {"add": co.psum_p, "max": co.pmax_p, "min": co.pmin_p}


class Run:
    """One jaxpr that is computed on parts."""

    def __init__(self, emitter: Emitter, body: Body) -> None:
        self.emitter = emitter
        self.body = body
        self.env: dict[Var, Held] = {}
        self.known: dict[tuple[Var, Spec], Value] = {}

    def run(self, args: Iterable[Held], consts: Iterable[Value] = ()) -> list[Held]:
        """The results, each as it is divided."""
        jaxpr = self.body.jaxpr
        for v, x in zip(jaxpr.constvars, consts, strict=True):
            self.env[v] = (x, replicated(v.aval.ndim))
        self.env.update(zip(jaxpr.invars, args, strict=True))
        for eqn in jaxpr.eqns:
            outer = self.emitter.eqn, self.emitter.other
            self.emitter.eqn, self.emitter.other = eqn, ""
            with use_source(eqn.source):
                self.equation(eqn)
            self.emitter.eqn, self.emitter.other = outer
        return [self.read(a) for a in jaxpr.outvars]

    def read(self, a: Atom) -> Held:
        """What a device holds of a value."""
        return (a, replicated(a.aval.ndim)) if isinstance(a, Literal) else self.env[a]

    def need(self, a: Atom, spec: Spec, what: str) -> Value:
        """A value divided in some way; what was moved once is used again."""
        held = self.read(a)
        if isinstance(a, Literal) or held[1] == spec:
            return held[0]
        found = self.known.get((a, spec))
        if found is None:
            found = self.known[a, spec] = self.emitter.moved(held, a.aval, spec, what)
        return found

    def give(self, v: Var, value: Value, spec: Spec, what: str) -> None:
        """Let a variable have a value, divided as propagation wants it."""
        want = self.body.get(v)
        self.env[v] = (self.emitter.moved((value, spec), v.aval, want, what), want)

    def equation(self, eqn: Eqn) -> None:
        """Compute one equation."""
        from .nested import NESTED

        rule: Callable[[Run, Eqn], None] | None = NESTED.get(eqn.primitive.name)
        if rule is not None:
            rule(self, eqn)
            return
        if eqn.primitive is sh.sharding_constraint_p:
            v = eqn.outputs[0]
            want = self.body.get(v)
            self.env[v] = (self.need(eqn.inputs[0], want, "sharding_constraint"), want)
            return
        f = self.body.rules.get(id(eqn)) or factors_of(eqn)
        have = [self.read(a)[1] for a in eqn.inputs]
        want = [self.body.get(v) for v in eqn.outputs]
        choice = self.emitter.chooser.choose(eqn, f, have, want)
        self._compute(eqn, f, choice)

    def _compute(self, eqn: Eqn, f: Factors, choice: Choice) -> None:
        way, name = choice.way, eqn.primitive.name
        self.emitter.other = "" if choice.other is None else str(choice.other)
        operands = [
            self.need(a, s, f"operand {i} of {name}")
            for i, (a, s) in enumerate(zip(eqn.inputs, way.needs, strict=True))
        ]
        place = Place(self.emitter, eqn, f, way, operands)
        rule = emissions.get(eqn.primitive)
        source = eqn.source
        if eqn.primitive.family != "collectives":  # those of the user's are told by their plain source
            source = noted(source, "", "", way.needs, way.gives)
        with use_source(source):
            self._mask(place)
            outs = place.bind() if rule is None else rule(place, place.operands, eqn)
        combining = reduced_axes(f, way.assignment)
        for v, x, spec in zip(eqn.outputs, outs, way.gives, strict=True):
            for monoid, axes in combining.items():
                x, spec = self._combine(eqn, v, x, spec, monoid, axes)
            self.give(v, x, spec, f"result of {name}")

    def _mask(self, place: Place) -> None:
        """Replace the padding of operands along uneven dimensions that are reduced."""
        f = place.factors
        for i, monoid in f.reduced.items():
            if i not in place.assignment or i in f.masked:
                continue
            for k, dims in enumerate(f.operands):
                for d, ids in enumerate(dims):
                    if ids == (i,):
                        x = place.operands[k]
                        place.operands[k] = place.masked(x, k, d, rd.identity_of(monoid, aval_of(x).dtype))

    def _combine(self, eqn: Eqn, v: Var, x: Value, spec: Spec, monoid: str, axes: Axes) -> Held:
        emitter = self.emitter
        c = combination(monoid, v.aval, spec, axes, self.body.get(v), emitter.sizes)
        over = ", ".join(map(str, axes))
        reason = f"{eqn.primitive.name}: what it reduces is divided on {over}"
        for a, d in c.scattered:
            k = emitter.sizes[a]
            wanted = f"{reason}, the result is wanted as {show(self.body.get(v))}"
            with emitter.noted(wanted):
                x = co.reduce_scatter_p.bind(x, axis_name=a, scatter_dimension=d, axis_size=k, tiled=True)
        if c.rest:
            x = emitter.combined(x, monoid, c.rest, reason)
        return x, c.spec
