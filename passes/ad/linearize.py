"""Linearisation and partial evaluation.

Linearising evaluates the derivative rules in a `PartialTrace`: operations on known values go to the surrounding
context (they are recorded in the outer trace, or evaluated at once), operations that involve unknown values, the
tangents, are recorded in a jaxpr of their own. What that jaxpr captures are the residuals. There is one pass over
the program, no primal operation is computed twice, and nothing is saved that the linear part does not read.

An equation that mixes both (a `scan` over primals and tangents) is split by a rule of the table `partial_eval`.

- ``linearize_eval(jaxpr, primals, nonzeros) -> (outs, Linear)``: in the current context.
- ``linearize_jaxpr(closed, nonzeros) -> Split``: from jaxpr to jaxprs, cached.
- ``partial_eval_jaxpr(closed, unknowns, force) -> Split``: the known and the unknown part of a jaxpr, cached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr, Literal, Params, Var
from quire.ir.primitive import Primitive, RuleTable
from quire.ir.source import SourceSetter
from quire.ir.tracing import Trace, Tracer, _current, bind, trace_flat  # pyright: ignore[reportPrivateUsage]

from ..cache import cached_transform
from ..dce import dce_eqns
from ..discharge import without_own_refs
from .jvp import jvp_eval
from .rules import Zero, instantiate

# rule(trace, operands, **params) -> list of results. Some operands are unknown (tracers of `trace`), some known. What
# the rule binds on known values is computed now; what involves unknown ones is recorded. To record the equation as
# it is, the rule calls `trace.record_unknown`.
PartialEvalRule: TypeAlias = Callable[..., Sequence[Any]]
partial_eval: RuleTable[PartialEvalRule] = RuleTable(
    "partial_eval", "split of an equation with a nested jaxpr into a known and an unknown part"
)


class PartialTrace(Trace, own=True):
    """Records what involves its own values; everything else is bound in the surrounding context."""

    __slots__ = ("_token", "_cheap")
    inlines = False

    def __init__(self, name: str) -> None:
        super().__init__(name, staging=False)
        self.concrete = False  # its own values are never known
        # Results of operations on nothing but literals (iota, zeros), by id: computed again instead of saved.
        self._cheap: dict[int, tuple[Any, int, Primitive, Sequence[Any], Params]] = {}

    def __enter__(self) -> PartialTrace:
        self._token = _current.set(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _current.reset(self._token)
        self.close()

    def is_unknown(self, x: Any) -> bool:
        """Whether x is a value of this trace: a tangent, or computed from one."""
        return isinstance(x, Tracer) and x.owner is self

    def bind(self, p: Primitive, args: Sequence[Any], params: Params) -> Any:
        known = [not (isinstance(a, Tracer) and a.owner is self) for a in args]
        if all(known):
            return self.bind_outside(p, args, params)
        if any(known):
            rule = partial_eval.get(p)
            if rule is not None:
                return rule(self, args, **params)
        return super().bind(p, args, params)

    def bind_outside(self, p: Primitive, args: Sequence[Any], params: Params) -> Any:
        """Bind in the surrounding context."""
        token = _current.set(self.parent)
        try:
            out = bind(p, args, params)
        finally:
            _current.reset(token)
        if not any(hasattr(a, "aval") or getattr(a, "shape", ()) for a in args) and p.effects_rule is None:
            for i, x in enumerate(out if p.multiple_results else (out,)):
                self._cheap[id(x)] = (x, i, p, args, params)
        return out

    def capture(self, value: Any) -> Var:
        found = self._cheap.get(id(value))
        if found is None:
            return super().capture(value)
        var = self._capture_index.get(id(value))
        if var is None:
            _, i, p, args, params = found
            var = self.record(p, [self.atom(a) for a in args], params)[i]
            self._capture_index[id(value)] = var
        return var

    def record_unknown(self, p: Primitive, args: Sequence[Any], params: Params) -> Any:
        """Record the equation here, capturing what is known."""
        return super().bind(p, args, params)


# -- linearisation ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Linear:
    """A linear function: `closed` takes the residuals, then the tangents; `residuals` are the values of the former.

    `nonzeros` marks the outputs that it returns a tangent for; the others are zero.
    """

    closed: ClosedJaxpr
    residuals: tuple[Any, ...]
    nonzeros: tuple[bool, ...]
    out_avals: tuple[ShapedArray, ...]


def linearize_eval(jaxpr: Jaxpr, primals: Sequence[Any], nonzeros: Sequence[bool]) -> tuple[list[Any], Linear]:
    """Evaluate a jaxpr without constants in the current context, and its derivative at that point as a jaxpr.

    Returns the results and the linear function of the tangents of the inputs for which `nonzeros` is set.
    """
    with PartialTrace("linearisation") as trace:
        tangents = [
            trace.new_input(v.aval.tangent()) if nz else Zero(v.aval.tangent())
            for v, nz in zip(jaxpr.invars, nonzeros, strict=True)
        ]
        outs, out_tangents = jvp_eval(jaxpr, primals, tangents)
        out_nonzeros = tuple(type(t) is not Zero for t in out_tangents)
        linear = dce_eqns(without_own_refs(trace.to_jaxpr([t for t in out_tangents if type(t) is not Zero])))
    linear, residuals = drop_unused(linear, trace.captured)
    avals = tuple(v.aval.tangent() for v in jaxpr.outvars)
    return outs, Linear(ClosedJaxpr(linear), tuple(residuals), out_nonzeros, avals)


def drop_unused(jaxpr: Jaxpr, captured: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
    """The jaxpr, whose first inputs are captured values, without those that it does not read."""
    n = len(captured)
    read = {a for eqn in jaxpr.eqns for a in eqn.inputs} | set(jaxpr.outvars)
    keep = [v in read for v in jaxpr.invars[:n]]
    if all(keep):
        return jaxpr, list(captured)
    invars = [v for v, k in zip(jaxpr.invars, keep) if k]
    return (
        Jaxpr((), (*invars, *jaxpr.invars[n:]), jaxpr.outvars, jaxpr.eqns),
        [x for x, k in zip(captured, keep) if k],
    )


@dataclass(frozen=True)
class Split:
    """A jaxpr in two parts.

    `known` takes `captured` and the known inputs, and returns the known outputs and the residuals; `unknown` takes
    the residuals and the unknown inputs and returns the outputs for which `out_unknowns` is set. A residual that is an
    input of `known` is that input's variable among its outvars.
    """

    known: ClosedJaxpr
    unknown: ClosedJaxpr
    out_unknowns: tuple[bool, ...]
    num_res: int
    captured: tuple[Any, ...]

    @property
    def num_known_out(self) -> int:
        """The number of the known part's results before the residuals."""
        return len(self.known.jaxpr.outvars) - self.num_res


@cached_transform()
def partial_eval_jaxpr(closed: ClosedJaxpr, unknowns: tuple[bool, ...], force: tuple[bool, ...] | None = None) -> Split:
    """Split a jaxpr (without constants) into what depends on the inputs marked in `unknowns` and the rest.

    `force` marks outputs that the unknown part is to return even where they are known.
    """
    return _split(closed, unknowns, force, None)


@cached_transform()
def linearize_jaxpr(closed: ClosedJaxpr, nonzeros: tuple[bool, ...], force: tuple[bool, ...] | None = None) -> Split:
    """Split the derivative of a jaxpr: `known` is the function itself with residuals, `unknown` its linear part.

    `unknown` takes the residuals and the tangents of the inputs marked in `nonzeros`; `out_unknowns` marks the outputs
    it returns a tangent for (`force`: also where it is zero). All outputs of the function are known.
    """
    return _split(closed, (False,) * len(nonzeros), force, nonzeros)


def _split(
    closed: ClosedJaxpr, unknowns: tuple[bool, ...], force: tuple[bool, ...] | None, nonzeros: tuple[bool, ...] | None
) -> Split:
    jaxpr = closed.jaxpr
    known_avals = [a for a, u in zip(closed.in_avals, unknowns, strict=True) if not u]
    result: list[Any] = []

    def flat(*known_in: Any) -> list[Any]:
        given = iter(known_in)
        with PartialTrace("partial evaluation") as trace:
            inputs = [trace.new_input(a) if u else next(given) for a, u in zip(closed.in_avals, unknowns)]
            if nonzeros is None:
                outs = eval_partial(jaxpr, inputs)
                forced = force or (False,) * len(outs)
                flags = [trace.is_unknown(x) or f for x, f in zip(outs, forced, strict=True)]
                unknown_outs = [x for x, u in zip(outs, flags) if u]
                known_outs = [x for x, u in zip(outs, flags) if not u]
            else:
                tangents = [
                    trace.new_input(a.tangent()) if nz else Zero(a.tangent())
                    for a, nz in zip(closed.in_avals, nonzeros, strict=True)
                ]
                known_outs, ts = jvp_eval(jaxpr, inputs, tangents)
                forced = force or (False,) * len(ts)
                flags = [type(t) is not Zero or f for t, f in zip(ts, forced, strict=True)]
                unknown_outs = [instantiate(t) for t, nz in zip(ts, flags) if nz]
            unknown = dce_eqns(without_own_refs(trace.to_jaxpr(unknown_outs)))
        unknown, residuals = drop_unused(unknown, trace.captured)
        result.extend((unknown, tuple(flags), len(residuals)))
        return [*known_outs, *residuals]

    known, captured, _ = trace_flat(flat, known_avals, name="partial evaluation")
    unknown, flags, num_res = result
    return Split(ClosedJaxpr(dce_eqns(known)), ClosedJaxpr(unknown), flags, num_res, tuple(captured))


def eval_partial(jaxpr: Jaxpr, inputs: Sequence[Any]) -> list[Any]:
    """Evaluate a jaxpr in the current `PartialTrace`."""
    env: dict[Var, Any] = dict(zip(jaxpr.invars, inputs, strict=True))
    with SourceSetter() as at:
        for eqn in jaxpr.eqns:
            at(eqn.source)
            values = [a.python_value if isinstance(a, Literal) else env[a] for a in eqn.inputs]
            out = bind(eqn.primitive, values, eqn.params)
            env.update(zip(eqn.outputs, out if eqn.primitive.multiple_results else (out,), strict=True))
    return [a.python_value if isinstance(a, Literal) else env[a] for a in jaxpr.outvars]


# Primitives without nested jaxprs and without a rule are recorded with what they capture, which is right for all that
# are linear in their unknown operands.
