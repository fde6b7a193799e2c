"""How the values of a program are divided, found out from its arguments, results and constraints.

Sweeps go forward and backward over the equations until nothing changes. In each equation the dimensions that are the
same (`rules.Factors`) get the same axes: of several proposals the longest wins if it begins as the others do, else that
of the largest array. A spec only ever grows; what the user fixed does not change; an axis divides one dimension of an array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from quire.ir.primitives import calls
from quire.ir.primitives import control_flow as cf
from quire.ir.primitives import sharding as sh
from quire.ir.primitives import structural as st
from quire.ir.primitives.shard_map import shard_map_p
from quire.ir.sharding import AbstractMesh, Mesh, PartitionSpec, check_spec
from quire.ir.source import where

from ..dce import dce_eqns
from .assembly import assembled
from .rules import Factors, extended, factors, spread, undivided
from .specs import Axes, Sizes, Spec, from_partition_spec, is_prefix, replicated, to_partition_spec, used

MOST_SWEEPS = 16


def factors_of(eqn: Eqn) -> Factors:
    """The factors of an equation; none can be divided where its primitive has no rule."""
    ins, outs = [a.aval for a in eqn.inputs], [v.aval for v in eqn.outputs]
    rule = factors.get(eqn.primitive)
    return undivided(ins, outs) if rule is None else rule(ins, outs, **eqn.params)


Grown = tuple[tuple[int, Spec], ...]
"""The operands and results of an equation, by number, that get another spec."""


class Known:
    """What was found out of equations, for those that are alike: layers of a model are."""

    def __init__(self) -> None:
        self.factors: dict[Any, Factors] = {}
        self.agreed: dict[Any, Grown] = {}

    def of(self, eqn: Eqn) -> Factors:
        """The factors of an equation: one object for those with one primitive, types and parameters."""
        key = (
            eqn.primitive,
            tuple([a.aval for a in eqn.inputs]),
            tuple([v.aval for v in eqn.outputs]),
            _hashed(eqn.params),
        )
        found = self.factors.get(key)
        if found is None:
            found = self.factors[key] = factors_of(eqn)
        return found


def _hashed(params: Any) -> Any:
    return tuple(params.items()) if params else ()


class Body:
    """The specs of a jaxpr's variables, with those of the programs that its equations hold."""

    def __init__(self, jaxpr: Jaxpr, sizes: Sizes, known: Known | None = None) -> None:
        self.jaxpr = jaxpr
        self.sizes = sizes
        self.known = known or Known()
        self.settled: set[int] = set()  # equations that agree, by identity
        self.touching: dict[Var, list[int]] = {}
        self.specs: dict[Var, Spec] = {}
        self.fixed: set[Var] = set(jaxpr.constvars)  # what is held whole costs nothing to divide
        self.inner: dict[tuple[int, int], Body] = {}
        self.rules: dict[int, Factors] = {}
        self.changed = False
        for eqn in jaxpr.eqns:
            if eqn.primitive is sh.sharding_constraint_p:
                self._constrain(eqn)
            if eqn.primitive.name not in NESTED:
                for a in (*eqn.inputs, *eqn.outputs):
                    if isinstance(a, Var):
                        self.touching.setdefault(a, []).append(id(eqn))

    def _constrain(self, eqn: Eqn) -> None:
        spec: PartitionSpec = eqn.params["sharding"].spec
        missing = [a for a in spec.axes if a not in self.sizes]
        if missing:
            known = ", ".join(map(repr, self.sizes))
            raise ValueError(
                f"partition: a constraint names the axis {missing[0]!r}, the axes of the mesh are {known}{where(eqn.source)}"
            )
        v = eqn.outputs[0]
        self.specs[v] = from_partition_spec(spec, v.aval.ndim)
        # Dimensions that the constraint leaves open may be divided further.
        if not any(e is PartitionSpec.UNCONSTRAINED for e in spec):
            self.fixed.add(v)

    def get(self, a: Atom) -> Spec:
        """The spec of a variable so far; literals are replicated."""
        found = self.specs.get(a) if isinstance(a, Var) else None
        return found if found is not None else replicated(a.aval.ndim)

    def fix(self, v: Var, spec: Spec) -> None:
        """Let a variable have this spec and no other."""
        self.specs[v] = spec
        self.fixed.add(v)

    def grow(self, a: Atom, spec: Spec) -> None:
        """Let a variable have this spec, if it continues the one that it has."""
        if isinstance(a, Literal) or a in self.fixed:
            return
        old = self.get(a)
        new: list[Axes] = []
        taken = used(old)
        for n, have, want in zip(a.aval.shape, old, spec):
            if is_prefix(have, want) and n > 1:
                for x in want[len(have) :]:
                    if x in taken:
                        break
                    taken.add(x)
                    have = (*have, x)
            new.append(have)
        if tuple(new) != old:
            self._set(a, tuple(new))

    def _set(self, a: Var, spec: Spec) -> None:
        self.specs[a] = spec
        self.changed = True
        self.settled.difference_update(self.touching.get(a, ()))

    def body(self, eqn: Eqn, k: int, closed: ClosedJaxpr, sizes: Sizes | None = None) -> Body:
        """What is known of the k-th program that an equation holds, which `sizes` (None: all axes) may divide."""
        key = (id(eqn), k)
        if key not in self.inner:
            # What is known holds for these sizes.
            alike = sizes is None or sizes == self.sizes
            self.inner[key] = Body(closed.jaxpr, self.sizes if sizes is None else sizes, self.known if alike else None)
        return self.inner[key]

    def unify(self, *places: tuple[Body, Atom, int]) -> None:
        """Let values have one spec; each is given with the number of its leading dimensions that the others lack."""
        best: dict[int, tuple[int, Axes]] = {}
        for body, a, extra in places:
            for d, axes in enumerate(body.get(a)[extra:]):
                if axes:
                    known = best.get(d)
                    if known is None or (is_prefix(known[1], axes) and axes != known[1]):
                        best[d] = (a.aval.nbytes, axes)
        for body, a, extra in places:
            spec = tuple(best[d][1] if d in best else () for d in range(a.aval.ndim - extra))
            before = body.changed
            body.changed = False
            body.grow(a, (*body.get(a)[:extra], *spec))
            self.changed = self.changed or body.changed
            body.changed = before or body.changed

    # -- sweeps

    def sweep(self, eqns: Sequence[Eqn]) -> None:
        """Let each equation's operands and results agree."""
        settled = self.settled
        for eqn in eqns:
            if id(eqn) not in settled:
                self.equation(eqn)

    def both(self) -> None:
        """Forward, then backward."""
        self.sweep(self.jaxpr.eqns)
        self.sweep(self.jaxpr.eqns[::-1])

    def equation(self, eqn: Eqn) -> None:
        """Let the operands and results of one equation agree."""
        rule = NESTED.get(eqn.primitive.name)
        if rule is not None:
            rule(self, eqn)
            return
        self.settled.add(id(eqn))
        f = self.rules.get(id(eqn))
        if f is None:
            f = self.rules[id(eqn)] = self.known.of(eqn)
        atoms = (*eqn.inputs, *eqn.outputs)
        specs, fixed = self.specs, self.fixed
        key = (
            id(f),
            tuple([None if isinstance(a, Literal) else (specs.get(a), a in fixed) for a in atoms]),
            len(set(atoms)) == len(atoms) or tuple([atoms.index(a) for a in atoms]),
        )
        grown = self.known.agreed.get(key)
        if grown is None:
            grown = self.known.agreed[key] = self._agreed(eqn, f)
            return
        for i, spec in grown:
            self._set(atoms[i], spec)  # pyright: ignore[reportArgumentType]

    def _agreed(self, eqn: Eqn, f: Factors) -> Grown:
        """Let the operands and results agree, and say which specs changed."""
        atoms = (*eqn.inputs, *eqn.outputs)
        before = [self.get(a) for a in atoms]
        best = self.proposals(eqn, f)
        if best:
            for a, dims in zip(atoms, (*f.operands, *f.results)):
                if isinstance(a, Var) and a not in self.fixed:
                    self.grow(a, extended(f, dims, self.get(a), best, self.sizes))
        return tuple((i, self.get(a)) for i, (a, old) in enumerate(zip(atoms, before)) if self.get(a) != old)

    def proposals(self, eqn: Eqn, f: Factors) -> dict[int, Axes]:
        """For each factor the axes that operands or results propose."""
        best: dict[int, tuple[int, Axes]] = {}
        for a, dims in zip((*eqn.inputs, *eqn.outputs), (*f.operands, *f.results)):
            if isinstance(a, Literal):
                continue
            for i, axes in spread(f, dims, self.get(a), self.sizes).items():
                known = best.get(i)
                if (
                    known is None
                    or (is_prefix(known[1], axes) and axes != known[1])
                    or (not is_prefix(axes, known[1]) and a.aval.nbytes > known[0])
                ):
                    best[i] = (a.aval.nbytes, axes)
        return {i: axes for i, (_, axes) in best.items()}

    def all_bodies_changed(self) -> bool:
        """Whether the last sweep changed something here or within."""
        found = self.changed or any([b.all_bodies_changed() for b in self.inner.values()])
        self.changed = False
        return found

    def settle(self) -> None:
        """Sweep until nothing changes."""
        for _ in range(MOST_SWEEPS):
            self.both()
            if not self.all_bodies_changed():
                return


def _scan(self: Body, eqn: Eqn) -> None:
    closed: ClosedJaxpr = eqn.params["jaxpr"]
    consts: int = eqn.params["num_consts"]
    carry: int = eqn.params["num_carry"]
    inner = self.body(eqn, 0, closed)
    invars, outvars = closed.jaxpr.invars, closed.jaxpr.outvars

    def agree() -> None:
        for i, (a, v) in enumerate(zip(eqn.inputs, invars)):
            if i < consts:
                self.unify((self, a, 0), (inner, v, 0))
            elif i < consts + carry:
                k = i - consts
                self.unify((self, a, 0), (inner, v, 0), (inner, outvars[k], 0), (self, eqn.outputs[k], 0))
            else:
                self.unify((self, a, 1), (inner, v, 0))
        for a, v in zip(outvars[carry:], eqn.outputs[carry:]):
            self.unify((inner, a, 0), (self, v, 1))

    agree()
    inner.both()
    agree()


def _while(self: Body, eqn: Eqn) -> None:
    p = eqn.params
    test = self.body(eqn, 0, p["cond_jaxpr"])
    inner = self.body(eqn, 1, p["body_jaxpr"])
    m, n = p["cond_nconsts"], p["body_nconsts"]

    def agree() -> None:
        for a, v in zip(eqn.inputs[:m], test.jaxpr.invars):
            self.unify((self, a, 0), (test, v, 0))
        for a, v in zip(eqn.inputs[m : m + n], inner.jaxpr.invars):
            self.unify((self, a, 0), (inner, v, 0))
        carried = zip(
            eqn.inputs[m + n :], test.jaxpr.invars[m:], inner.jaxpr.invars[n:], inner.jaxpr.outvars, eqn.outputs
        )
        for a, t, v, w, out in carried:
            self.unify((self, a, 0), (inner, v, 0), (inner, w, 0), (self, out, 0), (test, t, 0))

    agree()
    test.both()
    inner.both()
    agree()


def _cond(self: Body, eqn: Eqn) -> None:
    branches = [self.body(eqn, k, b) for k, b in enumerate(eqn.params["branches"])]

    def agree() -> None:
        for i, a in enumerate(eqn.inputs[1:]):
            self.unify((self, a, 0), *((b, b.jaxpr.invars[i], 0) for b in branches))
        for i, v in enumerate(eqn.outputs):
            self.unify((self, v, 0), *((b, b.jaxpr.outvars[i], 0) for b in branches))

    agree()
    for b in branches:
        b.both()
    agree()


def _call(self: Body, eqn: Eqn) -> None:
    inner = self.body(eqn, 0, called(eqn))

    def agree() -> None:
        for a, v in zip(eqn.inputs, inner.jaxpr.invars):
            self.unify((self, a, 0), (inner, v, 0))
        for a, v in zip(inner.jaxpr.outvars, eqn.outputs):
            self.unify((inner, a, 0), (self, v, 0))

    agree()
    inner.both()
    agree()


def _shard_map(self: Body, eqn: Eqn) -> None:
    p = eqn.params
    if any(self.sizes.get(a) != p["mesh"].shape[a] for a in p["manual_axes"]):
        return  # over another mesh of the same devices, of which this one's axes say nothing
    free = {a: n for a, n in self.sizes.items() if a not in p["manual_axes"]}
    places = [*zip(eqn.inputs, p["in_specs"], strict=True), *zip(eqn.outputs, p["out_specs"], strict=True)]
    specs = [from_partition_spec(s, a.aval.ndim) for a, s in places]
    for (a, _), spec in zip(places, specs):
        self.grow(a, spec)
    if not free:
        return
    # The other axes of the mesh divide the parts further, as suits the program within.
    inner = self.body(eqn, 0, p["jaxpr"], free)
    within = [*inner.jaxpr.invars, *inner.jaxpr.outvars]

    def agree() -> None:
        for (a, _), spec, v in zip(places, specs, within, strict=True):
            have = self.get(a)
            rest = [h[len(s) :] if is_prefix(s, h) else () for s, h in zip(spec, have, strict=True)]
            inner.grow(v, tuple(tuple(x for x in r if x in free) for r in rest))
            self.grow(a, tuple(s + r for s, r in zip(spec, inner.get(v), strict=True)))

    agree()
    inner.both()
    agree()


def called(eqn: Eqn) -> ClosedJaxpr:
    """The program that a call stands for."""
    return eqn.params["call_jaxpr"] if "call_jaxpr" in eqn.params else eqn.params["jaxpr"]


NESTED: Mapping[str, Any] = {
    cf.scan_p.name: _scan,
    cf.while_p.name: _while,
    cf.bounded_while_p.name: _while,
    cf.cond_p.name: _cond,
    calls.jit_p.name: _call,
    calls.checkpoint_p.name: _call,
    calls.fusion_p.name: _call,
    calls.custom_jvp_call_p.name: _call,
    calls.custom_vjp_call_p.name: _call,
    calls.custom_vmap_call_p.name: _call,
    shard_map_p.name: _shard_map,
}


# -- what is made of nothing ----------------------------------------------------------------------------------------------


def split_constants(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr in which each use of a filled array, or of counting numbers, has one of its own.

    Two uses of one array would have to agree on how it is divided, and carry the division of one into the other.
    """
    made: dict[Var, Eqn] = {}
    eqns: list[Eqn] = []
    seen: set[Var] = set()

    def use(a: Atom) -> Atom:
        if isinstance(a, Literal) or a not in made:
            return a
        if a not in seen:
            seen.add(a)
            return a
        eqn = made[a]
        new = Var(a.aval)
        eqns.append(eqn.replace(outputs=[new]))
        return new

    for eqn in jaxpr.eqns:
        if (eqn.primitive is st.broadcast_in_dim_p or eqn.primitive is st.iota_p) and all(
            isinstance(a, Literal) for a in eqn.inputs
        ):
            made[eqn.outputs[0]] = eqn
            eqns.append(eqn)
            continue
        inputs = [use(a) for a in eqn.inputs]
        eqns.append(eqn if all(a is b for a, b in zip(inputs, eqn.inputs)) else eqn.replace(inputs=inputs))
    outvars = [use(a) for a in jaxpr.outvars]
    return Jaxpr(jaxpr.constvars, jaxpr.invars, outvars, eqns)


def prepare(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr as it is partitioned: constants split, slices and the like assembled."""
    return dce_eqns(assembled(split_constants(jaxpr)))


# -- whole programs --------------------------------------------------------------------------------------------------------


def check_specs(
    what: str, specs: Sequence[PartitionSpec | None], avals: Sequence[ShapedArray], mesh: Mesh | AbstractMesh
) -> None:
    """Raise ValueError unless there is a spec (or None) for each value: entries for its dimensions, axes of the mesh."""
    if len(specs) != len(avals):
        raise ValueError(f"partition: expected a spec for each of the {len(avals)} {what}, got {len(specs)}")
    for i, (s, a) in enumerate(zip(specs, avals)):
        if s is not None and len(s) > a.ndim:
            raise ValueError(f"partition: {what} {i}: {s} has more entries than {a.short()} dimensions")
        if s is not None:
            check_spec(mesh, s)


def propagated(
    jaxpr: Jaxpr,
    mesh: Mesh | AbstractMesh,
    in_specs: Sequence[PartitionSpec | None],
    out_specs: Sequence[PartitionSpec | None] | None = None,
) -> Body:
    """The specs of all values. None for an argument or result: whatever suits the program.

    Raises:
        ValueError: the specs do not fit the arguments or results.
    """
    check_specs("arguments", in_specs, jaxpr.in_avals, mesh)
    body = Body(jaxpr, dict(mesh.shape))
    for v, s in zip(jaxpr.invars, in_specs):
        if s is not None:
            body.fix(v, from_partition_spec(s, v.aval.ndim))
    if out_specs is not None:
        check_specs("results", out_specs, jaxpr.out_avals, mesh)
        for a, s in zip(jaxpr.outvars, out_specs):
            if s is not None:
                body.grow(a, from_partition_spec(s, a.aval.ndim))
    body.settle()
    return body


def propagate(
    closed: ClosedJaxpr, mesh: Mesh | AbstractMesh, in_specs: Sequence[PartitionSpec | None]
) -> list[PartitionSpec]:
    """How the results of a program are divided if its arguments are as `in_specs` says.

    Args:
        closed: a program of whole arrays.
        mesh: the devices.
        in_specs: a spec for each argument; None: whatever suits the program.

    Raises:
        ValueError: the specs do not fit the arguments, or a constraint names an axis that the mesh does not have.
    """
    jaxpr = prepare(closed.jaxpr)
    body = propagated(jaxpr, mesh, in_specs)
    return [to_partition_spec(body.get(a)) for a in jaxpr.outvars]
