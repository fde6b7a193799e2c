"""Derivatives of calls: jit, checkpoint, functions with derivatives of their own, linear solves, host functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.errors import UnexpectedTracerError
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr, Var
from quire.ir.primitive import Primitive
from quire.ir.primitives import calls
from quire.ir.primitives import elementwise as ew
from quire.ir.tracing import Tracer, eval_jaxpr

from ..cache import cached_transform
from ..dce import dce_eqns
from ..rebuild import select, split, with_io
from .jvp import jvp_eval, jvp_jaxpr
from .linearize import PartialTrace, Split, partial_eval, partial_eval_jaxpr
from .rules import Linear, Zero, instantiate, is_zero, jvp, transpose
from .saving import Exposed, exposed, inline_calls, without_effects
from .transpose import backward, transpose_jaxpr

Value = Any


def nonzero_mask(tangents: Sequence[Any]) -> tuple[bool, ...]:
    """Which tangents are values."""
    return tuple(type(t) is not Zero for t in tangents)


def spread_tangents(values: Sequence[Any], nonzeros: Sequence[bool], avals: Sequence[ShapedArray]) -> list[Any]:
    """One tangent for each output: the next value where `nonzeros` is set, else a Zero."""
    given = iter(values)
    return [next(given) if nz else Zero(a.tangent()) for a, nz in zip(avals, nonzeros, strict=True)]


def unknown_mask(trace: PartialTrace, operands: Sequence[Any]) -> tuple[bool, ...]:
    """Which operands are unknown."""
    return tuple(trace.is_unknown(x) for x in operands)


def linear_mask(operands: Sequence[Any]) -> tuple[bool, ...]:
    """In a transpose rule: which operands are linear."""
    return tuple(type(x) is Linear for x in operands)


def run_known(split_: Split, known: Sequence[Any], apply: Callable[[ClosedJaxpr, list[Any]], Sequence[Any]]) -> tuple[
    list[Any], list[Any]
]:  # fmt: skip
    """Compute the known part of a split by `apply`; returns the known outputs and the residuals.

    Outputs and residuals that are inputs are passed around it, and each other one is returned once.
    """
    jaxpr = split_.known.jaxpr
    inputs = [*split_.captured, *known]
    values: dict[Any, Any] = dict(zip(jaxpr.invars, inputs, strict=True))
    wanted = list(dict.fromkeys(a for a in jaxpr.outvars if isinstance(a, Var) and a not in values))
    if wanted or jaxpr.effects:
        values.update(zip(wanted, apply(with_io(jaxpr, outvars=wanted), inputs), strict=True))
    outs = [values[a] if isinstance(a, Var) else a.python_value for a in jaxpr.outvars]
    n = split_.num_known_out
    return outs[:n], outs[n:]


def merge_outputs(out_unknowns: Sequence[bool], known: Sequence[Any], unknown: Sequence[Any]) -> list[Any]:
    """The outputs in order, from those of the known and of the unknown part."""
    k, u = iter(known), iter(unknown)
    return [next(u) if flag else next(k) for flag in out_unknowns]


# -- jit ---------------------------------------------------------------------------------------------------------------


def bind_jit(name: str, closed: ClosedJaxpr, operands: Sequence[Any], inline: bool = False) -> list[Any]:
    """A jit equation without donations."""
    return calls.jit_p.bind(*operands, name=name, jaxpr=closed, inline=inline, donated_invars=(False,) * len(operands))


@jvp(calls.jit_p)
def _jit_jvp(
    primals: Sequence[Value], tangents: Sequence[Any], *, name: str, jaxpr: ClosedJaxpr, inline: bool,
    donated_invars: tuple[bool, ...],
) -> tuple[Any, Any]:  # fmt: skip
    nonzeros = nonzero_mask(tangents)
    d = jvp_jaxpr(jaxpr, nonzeros)
    out = bind_jit(name, d.closed, [*d.captured, *primals, *select(tangents, nonzeros)], inline)
    n = len(jaxpr.out_avals)
    return out[:n], spread_tangents(out[n:], d.nonzeros, jaxpr.out_avals)


@partial_eval(calls.jit_p)
def _jit_partial_eval(
    trace: PartialTrace, operands: Sequence[Any], *, name: str, jaxpr: ClosedJaxpr, inline: bool,
    donated_invars: tuple[bool, ...],
) -> Sequence[Any]:  # fmt: skip
    unknowns = unknown_mask(trace, operands)
    s = partial_eval_jaxpr(jaxpr, unknowns)
    known, residuals = run_known(s, select(operands, unknowns, False), lambda c, xs: bind_jit(name, c, xs, inline))
    unknown: Sequence[Any] = ()
    if any(s.out_unknowns):
        args = [*residuals, *select(operands, unknowns)]
        params = {"name": name, "jaxpr": s.unknown, "inline": inline, "donated_invars": (False,) * len(args)}
        unknown = trace.record_unknown(calls.jit_p, args, params)
    return merge_outputs(s.out_unknowns, known, unknown)


@transpose(calls.jit_p)
def _jit_transpose(
    cts: Sequence[Any], *operands: Any, name: str, jaxpr: ClosedJaxpr, inline: bool, donated_invars: tuple[bool, ...]
) -> Sequence[Any]:
    return transposed_call(jaxpr, cts, operands, lambda c, xs: bind_jit(name, c, xs, inline))


def transposed_call(
    jaxpr: ClosedJaxpr,
    cts: Sequence[Any],
    operands: Sequence[Any],
    apply: Callable[[ClosedJaxpr, list[Any]], Sequence[Any]],
) -> list[Any]:
    """The transpose rule of an equation that applies a jaxpr once: the transposed jaxpr, applied by `apply`."""
    linear, nonzeros = linear_mask(operands), nonzero_mask(cts)
    t = transpose_jaxpr(jaxpr, linear, nonzeros)
    out = apply(t.closed, [*t.captured, *select(operands, linear, False), *select(cts, nonzeros)])
    given = iter(spread_tangents(out, t.nonzeros, [x.aval for x in select(operands, linear)]))
    return [next(given) if l else None for l in linear]


# -- checkpoint --------------------------------------------------------------------------------------------------------


@jvp(calls.checkpoint_p)
def _checkpoint_jvp(
    primals: Sequence[Value], tangents: Sequence[Any], *, jaxpr: ClosedJaxpr, prevent_cse: bool, differentiated: bool,
    policy: Any,
) -> tuple[Any, Any]:  # fmt: skip
    nonzeros = nonzero_mask(tangents)
    d = jvp_jaxpr(jaxpr, nonzeros)
    out = calls.checkpoint_p.bind(
        *d.captured, *primals, *select(tangents, nonzeros), jaxpr=d.closed, prevent_cse=prevent_cse,
        differentiated=differentiated, policy=policy,
    )  # fmt: skip
    n = len(jaxpr.out_avals)
    return out[:n], spread_tangents(out[n:], d.nonzeros, jaxpr.out_avals)


@partial_eval(calls.checkpoint_p)
def _checkpoint_partial_eval(
    trace: PartialTrace, operands: Sequence[Any], *, jaxpr: ClosedJaxpr, prevent_cse: bool, differentiated: bool,
    policy: Any,
) -> Sequence[Any]:  # fmt: skip
    unknowns = unknown_mask(trace, operands)
    r = rematerialised(jaxpr, unknowns, policy)
    params: dict[str, Any] = {"prevent_cse": prevent_cse, "policy": policy}

    def apply(closed: ClosedJaxpr, xs: list[Any]) -> list[Any]:
        return calls.checkpoint_p.bind(*xs, jaxpr=closed, differentiated=differentiated, **params)

    known, saved = run_known(r, select(operands, unknowns, False), apply)
    unknown: Sequence[Any] = ()
    if any(r.out_unknowns):
        args = [*saved, *select(operands, unknowns)]
        params |= {"jaxpr": r.unknown, "differentiated": True}
        unknown = trace.record_unknown(calls.checkpoint_p, args, params)
    return merge_outputs(r.out_unknowns, known, unknown)


@cached_transform()
def rematerialised(jaxpr: ClosedJaxpr, unknowns: tuple[bool, ...], policy: Any) -> Split:
    """A split whose unknown part computes its residuals again from the inputs and from what the policy keeps."""
    s = partial_eval_jaxpr(jaxpr if policy is None else inline_calls(jaxpr), unknowns)
    known, unknown = s.known.jaxpr, s.unknown.jaxpr
    residuals = known.outvars[s.num_known_out :]
    parts = Exposed(list(known.eqns), list(known.eqns), []) if policy is None else exposed(known.eqns, policy)
    again, only_once = without_effects(parts.again)  # effects belong to the forward pass alone
    names = dict(zip(unknown.invars, residuals))  # the residuals under their names in the known part

    def rename(a: Any) -> Any:
        return names.get(a, a) if isinstance(a, Var) else a

    eqns = [*again, *(e.replace(inputs=[rename(a) for a in e.inputs]) for e in unknown.eqns)]
    possible, linear = [*known.invars, *parts.kept, *only_once], unknown.invars[s.num_res :]
    second = dce_eqns(Jaxpr((), (*possible, *linear), [rename(a) for a in unknown.outvars], eqns))
    read = {a for e in second.eqns for a in e.inputs} | set(second.outvars)
    given = [v for v in dict.fromkeys(possible) if v in read]
    first = dce_eqns(Jaxpr((), known.invars, [*known.outvars[: s.num_known_out], *given], parts.forward))
    return Split(
        ClosedJaxpr(first), ClosedJaxpr(Jaxpr((), (*given, *linear), second.outvars, second.eqns)),
        s.out_unknowns, len(given), s.captured,
    )  # fmt: skip


@transpose(calls.checkpoint_p)
def _checkpoint_transpose(
    cts: Sequence[Any], *operands: Any, jaxpr: ClosedJaxpr, prevent_cse: bool, differentiated: bool, policy: Any
) -> Sequence[Any]:
    def apply(closed: ClosedJaxpr, xs: list[Any]) -> Sequence[Any]:
        return calls.checkpoint_p.bind(*xs, jaxpr=closed, prevent_cse=prevent_cse, differentiated=True, policy=policy)

    return transposed_call(jaxpr, cts, operands, apply)


@jvp(calls.name_p)
def _name_jvp(primals: Sequence[Value], tangents: Sequence[Any], *, name: str) -> tuple[Value, Any]:
    return calls.name_p.bind(*primals, name=name), tangents[0]


@transpose(calls.name_p)
def _name_transpose(ct: Any, x: Any, *, name: str) -> Sequence[Any]:
    return [ct]


# -- derivatives of the user -------------------------------------------------------------------------------------------


def _check_consts(what: str, name: str, tangents: Sequence[Any]) -> None:
    if any(type(t) is not Zero for t in tangents):
        raise UnexpectedTracerError(
            f"{what} {name}: it is differentiated with respect to a value it closes over. Pass the value as an "
            "argument of the function, so that its rule can return a derivative for it"
        )


@jvp(calls.custom_jvp_call_p)
def _custom_jvp(
    primals: Sequence[Value], tangents: Sequence[Any], *, name: str, call_jaxpr: ClosedJaxpr, jvp_jaxpr_fun: Any,
    num_consts: int, symbolic_zeros: bool,
) -> tuple[Any, Any]:  # fmt: skip
    _check_consts("custom_jvp", name, tangents[:num_consts])
    ts = list(tangents[num_consts:])
    if not symbolic_zeros:  # integers have no tangents: a Zero of dtype float0 stays
        ts = [instantiate(t) if is_zero(t) and t.aval.dtype == aval_of(x).dtype else t
              for t, x in zip(ts, primals[num_consts:])]  # fmt: skip
    return jvp_jaxpr_fun(list(primals[num_consts:]), ts)


@transpose(calls.custom_jvp_call_p)
def _custom_jvp_transpose(
    cts: Sequence[Any], *operands: Any, name: str, call_jaxpr: ClosedJaxpr, jvp_jaxpr_fun: Any, num_consts: int,
    symbolic_zeros: bool,
) -> Sequence[Any]:  # fmt: skip
    return backward(call_jaxpr.jaxpr, operands, cts)


@partial_eval(calls.custom_jvp_call_p, calls.custom_vjp_call_p, calls.custom_vmap_call_p)
def _custom_partial_eval(trace: PartialTrace, operands: Sequence[Any], *, call_jaxpr: ClosedJaxpr, **_: Any) -> Any:
    return eval_jaxpr(call_jaxpr.jaxpr, (), operands)  # it has been differentiated already


@dataclass(frozen=True)
class RuleJvp:
    """The batching rule of a derivative: that of the function differentiated, which the batching pass carries out.

    Attributes:
        rule: the function's rule.
        nonzeros: for each argument of the function whether its tangent is an argument, after all the arguments.
        out_nonzeros: likewise of the results.
    """

    rule: Callable[..., Any]
    nonzeros: tuple[bool, ...]
    out_nonzeros: tuple[bool, ...]

    @property
    def __name__(self) -> str:
        return getattr(self.rule, "__name__", "rule")


@jvp(calls.custom_vmap_call_p)
def _custom_vmap(
    primals: Sequence[Value], tangents: Sequence[Any], *, name: str, call_jaxpr: ClosedJaxpr, rule: Any, num_consts: int
) -> tuple[Any, Any]:
    nonzeros = nonzero_mask(tangents)
    if any(nonzeros[:num_consts]):  # the rule does not see what the function closes over
        return jvp_eval(call_jaxpr.jaxpr, primals, tangents)
    d = jvp_jaxpr(call_jaxpr, nonzeros, tuple(a.tangent().dtype == a.dtype for a in call_jaxpr.out_avals))
    out = calls.custom_vmap_call_p.bind(
        *d.captured, *primals, *select(tangents, nonzeros), name=name, call_jaxpr=d.closed,
        rule=RuleJvp(rule, nonzeros[num_consts:], d.nonzeros), num_consts=len(d.captured) + num_consts,
    )  # fmt: skip
    n = len(call_jaxpr.out_avals)
    return out[:n], spread_tangents(out[n:], d.nonzeros, call_jaxpr.out_avals)


@transpose(calls.custom_vmap_call_p)
def _custom_vmap_transpose(cts: Sequence[Any], *operands: Any, call_jaxpr: ClosedJaxpr, **_: Any) -> Sequence[Any]:
    return backward(call_jaxpr.jaxpr, operands, cts)


@jvp(calls.custom_vjp_call_p)
def _custom_vjp(
    primals: Sequence[Value], tangents: Sequence[Any], *, name: str, call_jaxpr: ClosedJaxpr, fwd_jaxpr_thunk: Any,
    bwd: Any, num_consts: int, symbolic_zeros: bool,
) -> tuple[Any, Any]:  # fmt: skip
    _check_consts("custom_vjp", name, tangents[:num_consts])
    args, ts = list(primals[num_consts:]), tangents[num_consts:]
    nonzeros = nonzero_mask(ts)
    if any(not isinstance(t, Tracer) for t in select(ts, nonzeros)):  # linearisation gives unknown ones
        raise TypeError(no_forward_mode(name))
    outs, residuals = fwd_jaxpr_thunk(args, nonzeros)
    out_avals = tuple(a.tangent() for a in call_jaxpr.out_avals)
    out_ts = calls.custom_lin_p.bind(
        *residuals, *select(ts, nonzeros), name=name, bwd=bwd, num_res=len(residuals), out_avals=out_avals,
        in_tangents=tuple(t.aval if nz else None for t, nz in zip(ts, nonzeros)), symbolic_zeros=symbolic_zeros,
    )  # fmt: skip
    inexact = [a.tangent().dtype == a.dtype for a in call_jaxpr.out_avals]
    return outs, [t if ok else Zero(a) for t, ok, a in zip(out_ts, inexact, out_avals, strict=True)]


@transpose(calls.custom_vjp_call_p)
def _custom_vjp_transpose(cts: Sequence[Any], *operands: Any, call_jaxpr: ClosedJaxpr, **_: Any) -> Sequence[Any]:
    return backward(call_jaxpr.jaxpr, operands, cts)


def no_forward_mode(name: str) -> str:
    """The message of forward-mode differentiation of a custom_vjp function."""
    return (
        f"custom_vjp {name}: forward-mode differentiation (jvp, jacfwd, linearize applied to it and evaluated) is not "
        "possible, since it has a reverse rule only: use custom_jvp, which serves both modes, or grad, vjp, jacrev"
    )


jvp.absent("it is made by the fuse pass, after every transformation", calls.fusion_p)
transpose.absent("it is made by the fuse pass, after every transformation", calls.fusion_p)
jvp.absent("a custom_vjp function has no forward derivative: use custom_jvp, or reverse mode", calls.custom_lin_p)


@transpose(calls.custom_lin_p)
def _custom_lin_transpose(
    cts: Sequence[Any], *operands: Any, name: str, bwd: Any, num_res: int, out_avals: tuple[ShapedArray, ...],
    in_tangents: tuple[ShapedArray | None, ...], symbolic_zeros: bool,
) -> Sequence[Any]:  # fmt: skip
    given = list(cts) if symbolic_zeros else [instantiate(c) for c in cts]
    out = bwd(list(operands[:num_res]), given)
    ct_in = [Zero(a) if c is None else c for c, a in zip(out, in_tangents, strict=True) if a is not None]
    return [*([None] * num_res), *ct_in]


# -- linear solves -----------------------------------------------------------------------------------------------------


def solve_parts(operands: Sequence[Any], const_lengths: Sequence[int]) -> tuple[list[list[Any]], list[Any]]:
    """The consts of matvec, vecmat, solve and transpose_solve, and b."""
    *consts, b = split(operands, *const_lengths)
    return consts, b


@jvp(calls.custom_linear_solve_p)
def _solve_jvp(
    primals: Sequence[Value], tangents: Sequence[Any], *, const_lengths: tuple[int, ...], jaxprs: tuple[Any, ...]
) -> tuple[Any, Any]:
    # A x = b, so A dx = db - dA x.
    params: dict[str, Any] = {"const_lengths": const_lengths, "jaxprs": jaxprs}
    consts, _ = solve_parts(primals, const_lengths)
    const_ts, b_ts = solve_parts(tangents, const_lengths)
    out = calls.custom_linear_solve_p.bind(*primals, **params)
    n = len(b_ts)
    x = out[:n]
    rhs: list[Any] = list(b_ts)
    matvec_nz = nonzero_mask(const_ts[0])
    if any(matvec_nz):
        d = jvp_jaxpr(jaxprs[0], (*matvec_nz, *(False,) * n))
        values = eval_jaxpr(d.closed.jaxpr, (), [*d.captured, *consts[0], *x, *select(const_ts[0], matvec_nz)])
        moved = spread_tangents(values[n:], d.nonzeros, jaxprs[0].out_avals)
        rhs = [b if is_zero(m) else (ew.neg(m) if is_zero(b) else ew.sub(b, m)) for b, m in zip(rhs, moved)]
    if all(map(is_zero, rhs)):
        return out, [Zero(aval_of(o).tangent()) for o in out]
    operands = [*primals[: sum(const_lengths)], *map(instantiate, rhs)]
    dx = calls.custom_linear_solve_p.bind(*operands, **params)[:n]
    return out, [*dx, *(Zero(aval_of(o).tangent()) for o in out[n:])]


@transpose(calls.custom_linear_solve_p)
def _solve_transpose(
    cts: Sequence[Any], *operands: Any, const_lengths: tuple[int, ...], jaxprs: tuple[Any, ...]
) -> Sequence[Any]:
    if jaxprs[1] is None or jaxprs[3] is None:
        raise TypeError("custom_linear_solve: reverse-mode differentiation needs transpose_solve (or symmetric=True)")
    (mv, vm, s, ts), b = solve_parts(operands, const_lengths)
    ct = [instantiate(c) for c in cts[: len(b)]]
    swapped = calls.custom_linear_solve_p.bind(
        *vm, *mv, *ts, *s, *ct,
        const_lengths=(const_lengths[1], const_lengths[0], const_lengths[3], const_lengths[2]),
        jaxprs=(jaxprs[1], jaxprs[0], jaxprs[3], jaxprs[2]),
    )  # fmt: skip
    return [*([None] * sum(const_lengths)), *swapped[: len(b)]]


# -- host functions ----------------------------------------------------------------------------------------------------


def _no_derivative(p: Primitive) -> None:
    def rule(primals: Sequence[Value], tangents: Sequence[Any], **params: Any) -> Any:
        raise ValueError(
            f"{p.name} has no derivative: wrap it in custom_jvp or custom_vjp, or stop the gradient of its arguments "
            "(lax.stop_gradient)"
        )

    jvp.add(p, rule)


_no_derivative(calls.pure_callback_p)
_no_derivative(calls.ffi_call_p)
_no_derivative(calls.io_callback_p)


@jvp(calls.debug_callback_p)
def _debug_jvp(primals: Sequence[Value], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    return calls.debug_callback_p.bind(*primals, **params), []


@jvp(calls.check_p)
def _check_jvp(primals: Sequence[Value], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    return calls.check_p.bind(*primals, **params), []


jvp.absent(
    "another package's primitive has its own rule; this is what it is lowered to",
    calls.stablehlo_call_p,
    calls.kernel_call_p,
)
transpose.absent(
    "another package's primitive has its own rule; this is what it is lowered to",
    calls.stablehlo_call_p,
    calls.kernel_call_p,
)
transpose.absent(
    "not linear",
    calls.pure_callback_p, calls.ffi_call_p, calls.io_callback_p, calls.debug_callback_p, calls.check_p,
)  # fmt: skip
