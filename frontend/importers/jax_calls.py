"""Counterparts of JAX's primitives that hold programs or Python functions: control flow, calls, custom rules, callbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.primitives import calls
from quire.ir.primitives import control_flow as cf
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st
from quire.ir.tracing import eval_jaxpr, merge_captured
from quire.passes.ad.rules import Zero

from ..arrays.placement import as_device
from ..lax.control_flow import while_loop
from ..transforms.rematerialization import checkpoint_policies
from .counterparts import Context, Nested, aval_from, counterpart
from .jax_tracing import jax_options, require_jax, spec_of, trace_by_jax

Value = Any


# -- control flow -------------------------------------------------------------------------------------------------------------


@counterpart("cond", keys=True)
def cond(context: Context, eqn: Any, index: Value, *operands: Value) -> list[Value]:
    branches = [context.nested(b) for b in eqn.params["branches"]]
    captured, closed = merge_captured([b.closed for b in branches], [b.captured for b in branches])
    return cf.cond(index, [*captured, *operands], closed)


@counterpart("while", keys=True)
def while_(context: Context, eqn: Any, *values: Value) -> list[Value]:
    p = eqn.params
    n, m = p["cond_nconsts"], p["body_nconsts"]
    test, body = context.nested(p["cond_jaxpr"]), context.nested(p["body_jaxpr"])
    if test.closed.out_avals[0].shape:
        return _while_of_lanes(test, body, values[:n], values[n : n + m], values[n + m :])
    return cf.while_p.bind(
        *test.captured, *values[:n], *body.captured, *values[n : n + m], *values[n + m :],
        cond_jaxpr=test.closed, body_jaxpr=body.closed,
        cond_nconsts=len(test.captured) + n, body_nconsts=len(body.captured) + m,
    )  # fmt: skip


def _while_of_lanes(
    test: Nested, body: Nested, test_consts: Sequence[Value], body_consts: Sequence[Value], carry: Sequence[Value]
) -> list[Value]:
    """A loop that JAX's vmap made: the condition says of each lane whether it goes on, and the others keep their carry."""

    def goes_on(values: Sequence[Value]) -> Value:
        return eval_jaxpr(test.closed.jaxpr, (), [*test.captured, *test_consts, *values])[0]

    def some(values: Sequence[Value]) -> Value:
        lanes = goes_on(values)
        return rd.reduce_or(lanes, range(aval_of(lanes).ndim))

    def turn(values: Sequence[Value]) -> list[Value]:
        lanes = goes_on(values)
        after = eval_jaxpr(body.closed.jaxpr, (), [*body.captured, *body_consts, *values])
        found: list[Value] = []
        for new, old in zip(after, values, strict=True):
            shape = aval_of(new).shape
            chosen = st.broadcast_in_dim(lanes, shape, range(aval_of(lanes).ndim))
            found.append(ew.select_n(chosen, old, new))
        return found

    return while_loop(some, turn, list(carry))


@counterpart("scan", keys=True)
def scan(context: Context, eqn: Any, *values: Value) -> list[Value]:
    p = eqn.params
    n, m = p["num_consts"], p["num_carry"]
    body = context.nested(p["jaxpr"])
    return cf.scan(
        [*body.captured, *values[:n]], values[n : n + m], values[n + m :], body.closed, length=int(p["length"]),
        reverse=bool(p["reverse"]), unroll=max(1, int(p["unroll"])),
    )  # fmt: skip


@counterpart("platform_index")
def platform_index(context: Context, eqn: Any) -> Value:
    """Which of the branches is for the platform that quire computes on."""
    here = as_device(None).platform
    platforms: Sequence[tuple[str, ...] | None] = eqn.params["platforms"]
    for i, names in enumerate(platforms):
        if names is not None and here in names:
            return np.int32(i)
    return np.int32(next((i for i, names in enumerate(platforms) if names is None), 0))


# -- calls --------------------------------------------------------------------------------------------------------------------


@counterpart("jit", keys=True)
def jit(context: Context, eqn: Any, *values: Value) -> list[Value]:
    p = eqn.params
    body = context.nested(p["jaxpr"])
    return calls.jit_p.bind(
        *body.captured, *values, name=str(p["name"]), jaxpr=body.closed, inline=bool(p["inline"]),
        donated_invars=(False,) * (len(body.captured) + len(values)),
    )  # fmt: skip


@counterpart("closed_call", "call", "core_call", keys=True)
def call(context: Context, eqn: Any, *values: Value) -> list[Value]:
    return context.inline(eqn.params["call_jaxpr"], values)


@counterpart("composite", keys=True)
def composite(context: Context, eqn: Any, *values: Value) -> list[Value]:
    return context.inline(eqn.params["jaxpr"], values)


@dataclass(frozen=True)
class _Policy:
    """A policy of JAX's, asked by quire's primitives: the same name means the same."""

    policy: Callable[..., Any]

    def __call__(self, prim: Any, *avals: Any, **params: Any) -> bool:
        from jax.extend.core import primitives

        name = prim.name.replace("-", "_") + "_p"
        given = self.policy(getattr(primitives, name, prim), *avals, **params)
        return given is True or type(given).__name__ in ("Saveable", "Offloadable", "_SaveableType")


def _policy(policy: Any) -> Any:
    """A policy of JAX's as quire's: the same one where quire has one of that name."""
    if policy is None:
        return None
    import jax

    for name in ("everything_saveable", "nothing_saveable", "dots_saveable", "dots_with_no_batch_dims_saveable"):
        if policy is getattr(jax.checkpoint_policies, name):
            return getattr(checkpoint_policies, name)
    return _Policy(policy)


@counterpart("remat2", "checkpoint", keys=True)
def checkpoint(context: Context, eqn: Any, *values: Value) -> list[Value]:
    p = eqn.params
    body = context.nested(p["jaxpr"])
    once = p["prevent_cse"]
    return calls.checkpoint_p.bind(
        *body.captured, *values, jaxpr=body.closed, prevent_cse=any(once) if isinstance(once, tuple) else bool(once),
        differentiated=bool(p["differentiated"]), policy=_policy(p["policy"]),
    )  # fmt: skip


@counterpart("custom_linear_solve")
def custom_linear_solve(context: Context, eqn: Any, *values: Value) -> list[Value]:
    lengths, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    operands: list[Value] = []
    counts: list[int] = []
    found: list[Any] = []
    start = 0
    for n, jaxpr in zip(lengths, jaxprs, strict=True):
        body = None if jaxpr is None else context.nested(jaxpr)
        captured = [] if body is None else body.captured
        operands += [*captured, *values[start : start + n]]
        counts.append(len(captured) + n)
        found.append(None if body is None else body.closed)
        start += n
    return calls.custom_linear_solve_p.bind(
        *operands, *values[start:], const_lengths=tuple(counts), jaxprs=tuple(found)
    )


# -- derivatives and batching of the user ----------------------------------------------------------------------------------------


def _is_zero(x: Any) -> bool:
    return x is None or type(x).__name__ in ("Zero", "SymbolicZero")


@dataclass(frozen=True)
class _JvpRule:
    """``(primals, tangents) -> (results, tangents)`` by the rule that JAX traces when it is asked for it."""

    context: Context = field(compare=False)
    thunk: Any
    x64: bool

    def __call__(self, primals: Sequence[Value], tangents: Sequence[Any]) -> tuple[list[Value], list[Any]]:
        zeros = [type(t) is Zero for t in tangents]
        with jax_options(self.x64):
            jaxpr, consts, out_zeros = self.thunk.call_wrapped(*zeros)
        given = [t for t, zero in zip(tangents, zeros) if not zero]
        out = self.context.evaluate(jaxpr, consts, [*primals, *given])
        results, rest = out[: len(out_zeros)], iter(out[len(out_zeros) :])
        found: list[Any] = []
        for x, zero in zip(results, out_zeros):
            aval = aval_of(x).tangent()
            t = None if zero else next(rest)
            found.append(Zero(aval) if t is None or aval.dtype == dtypes.float0 else t)
        return results, found


@counterpart("custom_jvp_call", keys=True)
def custom_jvp_call(context: Context, eqn: Any, *values: Value) -> list[Value]:
    p = eqn.params
    body = context.nested(p["call_jaxpr"])
    rule = _JvpRule(context, p["jvp_jaxpr_fun"], _x64())
    return calls.custom_jvp_call_p.bind(
        *body.captured, *values, name=_name(p["call_jaxpr"], "custom_jvp"), call_jaxpr=body.closed, jvp_jaxpr_fun=rule,
        num_consts=len(body.captured) + p["num_consts"], symbolic_zeros=bool(p["symbolic_zeros"]),
    )  # fmt: skip


def _x64() -> bool:
    from quire.ir.config import config

    return config.options.enable_x64


def _name(jaxpr: Any, otherwise: str) -> str:
    return getattr(getattr(jaxpr.jaxpr, "debug_info", None), "func_name", None) or otherwise


@dataclass(frozen=True)
class _VjpRule:
    """Both rules of a `custom_vjp` function of JAX's, which JAX traces when it is asked for them."""

    context: Context = field(compare=False)
    thunk: Any
    bwd: Any
    out_trees: Any
    num_consts: int
    x64: bool
    residuals: list[Any] = field(default_factory=list, compare=False)
    """The types of the residuals, known once the forward rule has been traced."""

    def forward(self, args: Sequence[Value], nonzeros: Sequence[bool]) -> tuple[list[Value], list[Value]]:
        """The results and the residuals; some of these are the arguments."""
        with jax_options(self.x64):
            jaxpr, consts = self.thunk.call_wrapped(*map(bool, nonzeros))
            _, res_tree, forwarded = self.out_trees()
        out = self.context.evaluate(jaxpr, consts, args)
        n = res_tree.num_leaves - sum(f is not None for f in forwarded)
        own = iter(zip(out[:n], jaxpr.outvars[:n]))
        residuals: list[Value] = []
        types: list[Any] = []
        for f in forwarded:
            x, var = next(own) if f is None else (args[f - self.num_consts], jaxpr.invars[f - self.num_consts])
            residuals.append(x)
            types.append(var.aval)
        self.residuals[:] = types
        return out[n:], residuals

    def backward(self, residuals: Sequence[Value], cotangents: Sequence[Any]) -> list[Any]:
        """A cotangent for each argument; None for zero."""
        jax = require_jax("from_jax")
        given = [c for c in cotangents if type(c) is not Zero]
        n = len(residuals)
        zero: list[bool] = []

        def flat(*xs: Any) -> list[Any]:
            rest = iter(xs[n:])
            cts = [
                jax.custom_derivatives.SymbolicZero(jax.core.ShapedArray(c.aval.shape, c.aval.dtype))
                if type(c) is Zero
                else next(rest)
                for c in cotangents
            ]
            found = list(self.bwd.call_wrapped(*xs[:n], *cts) if hasattr(self.bwd, "call_wrapped")
                         else self.bwd(*xs[:n], *cts))  # fmt: skip
            zero[:] = [_is_zero(x) for x in found]
            return [x for x in found if not _is_zero(x)]

        specs = [*map(spec_of, self.residuals), *(spec_of(aval_of(c)) for c in given)]
        closed, _ = trace_by_jax(flat, specs, self.x64)
        out = iter(self.context.evaluate(closed.jaxpr, closed.consts, [*residuals, *given]))
        types = iter(closed.out_avals)
        found: list[Any] = []
        for nothing in zero:
            if nothing:
                found.append(None)
                continue
            x = next(out)
            found.append(None if next(types).dtype == dtypes.float0 else x)
        return found


@dataclass(frozen=True)
class _Forward:
    rule: _VjpRule

    def __call__(self, args: Sequence[Value], nonzeros: Sequence[bool]) -> tuple[list[Value], list[Value]]:
        return self.rule.forward(args, nonzeros)


@dataclass(frozen=True)
class _Backward:
    rule: _VjpRule

    def __call__(self, residuals: Sequence[Value], cotangents: Sequence[Any]) -> list[Any]:
        return self.rule.backward(residuals, cotangents)


@counterpart("custom_vjp_call", keys=True)
def custom_vjp_call(context: Context, eqn: Any, *values: Value) -> list[Value]:
    p = eqn.params
    body = context.nested(p["call_jaxpr"])
    rule = _VjpRule(context, p["fwd_jaxpr_thunk"], p["bwd"], p["out_trees"], p["num_consts"], _x64())
    return calls.custom_vjp_call_p.bind(
        *body.captured, *values, name=_name(p["call_jaxpr"], "custom_vjp"), call_jaxpr=body.closed,
        fwd_jaxpr_thunk=_Forward(rule), bwd=_Backward(rule), num_consts=len(body.captured) + p["num_consts"],
        symbolic_zeros=bool(p["symbolic_zeros"]),
    )  # fmt: skip


@dataclass(frozen=True)
class _VmapRule:
    """``(axis_size, in_batched, args) -> (results, which are batched)`` by a rule of JAX's `custom_vmap`."""

    context: Context = field(compare=False)
    rule: Any
    in_tree: Any
    x64: bool

    def __call__(
        self, axis_size: int, in_batched: Sequence[bool], args: Sequence[Value]
    ) -> tuple[list[Value], list[bool]]:
        import jax

        flags: list[bool] = []

        def flat(*xs: Any) -> list[Any]:
            given = jax.tree_util.tree_unflatten(self.in_tree, list(in_batched))
            out, batched = self.rule(axis_size, list(given), *jax.tree_util.tree_unflatten(self.in_tree, xs))
            flags[:] = [bool(b) for b in jax.tree_util.tree_leaves(batched)]
            return jax.tree_util.tree_leaves(out)

        closed, _ = trace_by_jax(flat, [spec_of(aval_of(x)) for x in args], self.x64)
        return self.context.evaluate(closed.jaxpr, closed.consts, args), flags


@counterpart("custom_vmap_call")
def custom_vmap_call(context: Context, eqn: Any, *values: Value) -> list[Value]:
    p = eqn.params
    body = context.nested(p["call"])
    return calls.custom_vmap_call_p.bind(
        *body.captured, *values, name=_name(p["call"], "custom_vmap"), call_jaxpr=body.closed,
        rule=_VmapRule(context, p["rule"], p["in_tree"], _x64()), num_consts=len(body.captured),
    )  # fmt: skip


# -- functions on the host ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Host:
    """A flat function of arrays that JAX made of the user's; its results as NumPy arrays."""

    function: Callable[..., Any]
    dtypes: tuple[Any, ...] = ()

    @property
    def __name__(self) -> str:
        inner = getattr(self.function, "callback_func", self.function)
        return getattr(inner, "__name__", type(inner).__name__)

    def __call__(self, *arrays: Any) -> list[Any]:
        out = self.function(*arrays)
        return [np.asarray(x, d) for x, d in zip(out or (), self.dtypes)]


@counterpart("pure_callback")
def pure_callback(context: Context, eqn: Any, *values: Value) -> list[Value]:
    p = eqn.params
    avals = tuple(aval_from(a) for a in p["result_avals"])
    return calls.pure_callback_p.bind(
        *values, callback=_Host(p["callback"], tuple(a.dtype for a in avals)), result_avals=avals,
        vmap_method=p["vmap_method"],
    )  # fmt: skip


@counterpart("io_callback")
def io_callback(context: Context, eqn: Any, *values: Value) -> list[Value]:
    p = eqn.params
    avals = tuple(aval_from(a) for a in p["result_avals"])
    return calls.io_callback_p.bind(
        *values, callback=_Host(p["callback"], tuple(a.dtype for a in avals)), result_avals=avals,
        ordered=bool(p["ordered"]),
    )  # fmt: skip


@counterpart("debug_callback")
def debug_callback(context: Context, eqn: Any, *values: Value) -> list[Value]:
    p = eqn.params
    ordered = "Ordered" in type(p["effect"]).__name__
    return calls.debug_callback_p.bind(*values, callback=_Host(p["callback"]), ordered=ordered)


@dataclass(frozen=True)
class _Print:
    """What `jax.debug.print` prints, of flat arrays."""

    fmt: str
    in_tree: Any
    static: tuple[tuple[int, Any], ...]

    @property
    def __name__(self) -> str:
        return f"print({self.fmt!r})"

    def __call__(self, *arrays: Any) -> tuple[()]:
        import jax

        leaves = list(arrays)
        for i, value in self.static:
            leaves.insert(i, value)
        args, kwargs = jax.tree_util.tree_unflatten(self.in_tree, leaves)
        print(self.fmt.format(*args, **kwargs))
        return ()


@counterpart("debug_print")
def debug_print(context: Context, eqn: Any, *values: Value) -> list[Value]:
    p = eqn.params
    static = tuple((i, getattr(v, "value", v)) for i, v in dict(p["static_args"]).items()) if p["static_args"] else ()
    printer = _Host(_Print(p["fmt"], p["in_tree"], static))
    return calls.debug_callback_p.bind(*values, callback=printer, ordered=bool(p["ordered"]))
