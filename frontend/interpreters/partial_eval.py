"""Tracing of functions to jaxprs, wholly or as far as values are unknown (`jax.interpreters.partial_eval`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.jaxpr import ClosedJaxpr, DebugInfo, Jaxpr, Literal, Var
from quire.ir.primitive import Primitive
from quire.ir.tracing import Tracer, trace_flat
from quire.passes.ad.linearize import PartialTrace, drop_unused
from quire.passes.ad.linearize import partial_eval_jaxpr as _split
from quire.passes.dce import dce_eqns

from ..absent_names import module_getattr
from ..extend.linear_util import WrappedFun

Val = Any
Value = Any


class PartialVal(tuple[Any, Any]):
    """What is known of a value: the value itself, or its type alone. A pair ``(aval, const)`` of which one is None."""

    __slots__ = ()

    @classmethod
    def known(cls, const: Value) -> PartialVal:
        """A value that is known."""
        return cls((None, const))

    @classmethod
    def unknown(cls, aval: ShapedArray) -> PartialVal:
        """A value of which the type is known."""
        return cls((aval, None))

    def is_known(self) -> bool:
        """Whether the value is known."""
        return self[0] is None

    def get_known(self) -> Any:
        """The value; None where it is not known."""
        return self[1] if self[0] is None else None

    def get_aval(self) -> ShapedArray:
        """The type."""
        return aval_of(self[1]) if self[0] is None else self[0]


def trace_to_jaxpr_nounits(
    fun: WrappedFun, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[PartialVal], list[Value]]:
    """Evaluate a function of flat values as far as its arguments are known, and record the rest.

    Args:
        fun: returns a list of values.
        pvals: a known value, or a type, for each argument.
        instantiate: which results the jaxpr is to give although they are known; all, or none.

    Returns:
        The jaxpr of the unknown arguments to the unknown results; what is known of each result; and the values of the
        jaxpr's constants, which are those of known values that it reads.
    """
    with PartialTrace("partial evaluation") as trace:
        inputs = [p.get_known() if p.is_known() else trace.new_input(p.get_aval()) for p in pvals]
        outs = list(fun.call_wrapped(*inputs))
        forced = [instantiate] * len(outs) if isinstance(instantiate, bool) else list(instantiate)
        unknown = [trace.is_unknown(x) or bool(f) for x, f in zip(outs, forced, strict=True)]
        jaxpr = dce_eqns(trace.to_jaxpr([x for x, u in zip(outs, unknown) if u]))
        captured = list(trace.captured)
    jaxpr, consts = drop_unused(jaxpr, captured)
    found = [PartialVal.unknown(aval_of(x)) if u else PartialVal.known(x) for x, u in zip(outs, unknown)]
    return _with_constvars(jaxpr, len(consts), fun.debug_info), found, consts


def trace_to_jaxpr_dynamic(
    fun: WrappedFun, in_avals: Sequence[ShapedArray], *, keep_inputs: Sequence[bool] | None = None, lower: bool = False,
    auto_dce: bool = False,
) -> tuple[Jaxpr, list[ShapedArray], list[Value]]:  # fmt: skip
    """Record a function of flat values of these types: its jaxpr, the results' types, and the values of its constants.

    `keep_inputs` and `lower` are accepted; with `auto_dce` what no result needs is left out.
    """
    jaxpr, captured, _ = trace_flat(
        lambda *xs: list(fun.call_wrapped(*xs)), list(in_avals), name=f"trace of {fun.__name__}"
    )
    if auto_dce:
        jaxpr, captured = drop_unused(dce_eqns(jaxpr), captured)
    return _with_constvars(jaxpr, len(captured), fun.debug_info), list(jaxpr.out_avals), list(captured)


def _with_constvars(jaxpr: Jaxpr, n: int, debug_info: DebugInfo) -> Jaxpr:
    return Jaxpr(jaxpr.invars[:n], jaxpr.invars[n:], jaxpr.outvars, jaxpr.eqns, debug_info=debug_info)


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: bool | Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool]]:
    """The jaxpr with the used results, and the inputs that they need; and which inputs those are.

    `instantiate` says which inputs are kept in any case. The constants are all kept.
    """
    pruned, _, used = _pruned(jaxpr, used_outputs, instantiate)
    invars = [v for v, u in zip(jaxpr.invars, used) if u]
    return pruned.replace(invars=invars), used


def dce_jaxpr_consts(
    jaxpr: Jaxpr, used_outputs: bool | Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool], list[bool]]:
    """As `dce_jaxpr`, with the constants that are needed: the jaxpr, which constants, and which inputs those are."""
    pruned, consts, used = _pruned(jaxpr, used_outputs, instantiate)
    constvars = [v for v, u in zip(jaxpr.constvars, consts) if u]
    invars = [v for v, u in zip(jaxpr.invars, used) if u]
    return pruned.replace(constvars=constvars, invars=invars), consts, used


def _pruned(
    jaxpr: Jaxpr, used_outputs: bool | Sequence[bool], instantiate: bool | Sequence[bool]
) -> tuple[Jaxpr, list[bool], list[bool]]:
    used = [used_outputs] * len(jaxpr.outvars) if isinstance(used_outputs, bool) else list(used_outputs)
    keep = [instantiate] * len(jaxpr.invars) if isinstance(instantiate, bool) else list(instantiate)
    pruned = dce_eqns(jaxpr, [v for v, u in zip(jaxpr.outvars, used, strict=True) if u])
    read = {a for eqn in pruned.eqns for a in eqn.inputs} | set(pruned.outvars)
    return (
        pruned,
        [v in read for v in jaxpr.constvars],
        [bool(k) or v in read for v, k in zip(jaxpr.invars, keep, strict=True)],
    )


def partial_eval_jaxpr_nounits(
    jaxpr: ClosedJaxpr, unknowns: Sequence[bool], instantiate: bool | Sequence[bool]
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], list[ShapedArray]]:
    """A jaxpr in two: what depends on the inputs that are marked as unknown, and the rest.

    Args:
        jaxpr: without constants.
        unknowns: for each input whether it is unknown.
        instantiate: which results the unknown part is to give although they are known.

    Returns:
        The known part, which gives known results and residuals; the unknown part, which takes the residuals and the unknown
        inputs; which results are unknown; and the residuals' types.
    """
    n = len(jaxpr.out_avals)
    force = (instantiate,) * n if isinstance(instantiate, bool) else tuple(instantiate)
    found = _split(jaxpr, tuple(unknowns), force)
    known = found.known.jaxpr
    k = len(found.captured)
    closed = ClosedJaxpr(_with_constvars(known, k, known.debug_info), found.captured)
    return closed, found.unknown, list(found.out_unknowns), [v.aval for v in known.outvars[found.num_known_out :]]


def convert_constvars_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr whose constants are its first inputs."""
    return jaxpr.replace(constvars=(), invars=(*jaxpr.constvars, *jaxpr.invars))


def convert_invars_to_constvars(jaxpr: Jaxpr, n: int) -> Jaxpr:
    """The jaxpr whose first `n` inputs are its constants. Raises ValueError for one that has constants."""
    if jaxpr.constvars:
        raise ValueError("the jaxpr has constants already")
    return jaxpr.replace(constvars=jaxpr.invars[:n], invars=jaxpr.invars[n:])


def close_jaxpr(jaxpr: Jaxpr) -> ClosedJaxpr:
    """A jaxpr without constants as a closed one."""
    return ClosedJaxpr(jaxpr, ())


def move_binders_to_front(closed: ClosedJaxpr, to_move: Sequence[bool]) -> ClosedJaxpr:
    """The closed jaxpr with the marked inputs first."""
    first = [v for v, m in zip(closed.jaxpr.invars, to_move, strict=True) if m]
    rest = [v for v, m in zip(closed.jaxpr.invars, to_move, strict=True) if not m]
    return closed.map_jaxpr(lambda j: j.replace(invars=(*first, *rest)))


class _Recorded(type):
    """Answers `isinstance`: quire has one kind of tracer, which its trace tells more of."""

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tracer) and isinstance(x.owner, PartialTrace) is cls.partial  # type: ignore[attr-defined]


class DynamicJaxprTracer(metaclass=_Recorded):
    """What traced values are an instance of, within functions that are recorded."""

    partial = False


class JaxprTracer(metaclass=_Recorded):
    """What unknown values are an instance of, within functions that are evaluated as far as values are known."""

    partial = True


Rule = Callable[..., Any]
# JAX asks these for primitives that hold jaxprs. quire keeps an equation of another package's primitive whole: it is
# recorded where an operand is unknown, and left out where none of its results is used.
custom_partial_eval_rules: dict[Primitive, Rule] = {}
partial_eval_jaxpr_custom_rules: dict[Primitive, Rule] = {}
dce_rules: dict[Primitive, Rule] = {}

__all__ = [
    "DynamicJaxprTracer", "JaxprTracer", "Literal", "PartialVal", "Val", "Var", "close_jaxpr", "convert_constvars_jaxpr",
    "convert_invars_to_constvars", "custom_partial_eval_rules", "dce_jaxpr", "dce_jaxpr_consts", "dce_rules",
    "move_binders_to_front", "partial_eval_jaxpr_custom_rules", "partial_eval_jaxpr_nounits", "trace_to_jaxpr_dynamic",
    "trace_to_jaxpr_nounits",
]  # fmt: skip

__getattr__ = module_getattr("quire.interpreters.partial_eval", globals())
