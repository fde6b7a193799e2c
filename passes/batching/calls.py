"""Batching of calls: jit, checkpoint, functions with derivatives of their own, linear solves, host functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.axes import named_axis
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitive import Primitive
from quire.ir.primitives import calls
from quire.ir.primitives import reductions as rd
from quire.ir.source import current_source, where
from quire.ir.tracing import trace_flat

from ..ad.calls import RuleJvp
from ..ad.jvp import jvp_jaxpr
from ..ad.rules import Zero, is_zero
from ..rebuild import split
from .batch import Batched, batch_eval, batch_jaxpr, batched_aval, force_dim, lane_aval, one_by_one
from .rules import Axis, Dim, batching, move_dim, sum_of_equal

Value = Any


@batching(calls.jit_p)
def _jit(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, name: str, jaxpr: ClosedJaxpr, inline: bool,
    donated_invars: tuple[bool, ...],
) -> tuple[Any, Any]:  # fmt: skip
    b = batch_jaxpr(jaxpr, axis, tuple(dims))
    out = calls.jit_p.bind(
        *b.captured, *operands, name=name, jaxpr=b.closed, inline=inline,
        donated_invars=(*((False,) * len(b.captured)), *donated_invars),
    )  # fmt: skip
    return out, b.out_dims


@batching(calls.checkpoint_p)
def _checkpoint(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, jaxpr: ClosedJaxpr, **params: Any
) -> tuple[Any, Any]:
    b = batch_jaxpr(jaxpr, axis, tuple(dims))
    return calls.checkpoint_p.bind(*b.captured, *operands, jaxpr=b.closed, **params), b.out_dims


@batching(calls.name_p)
def _name(axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, name: str) -> tuple[Any, Any]:
    return calls.name_p.bind(*operands, name=name), dims[0]


# -- derivatives of the user -------------------------------------------------------------------------------------------


def _apply_batched(
    f: Callable[..., Sequence[Any]], args: Sequence[Any], dims: Sequence[Dim], axis: Axis, what: str
) -> tuple[list[Any], list[Dim]]:
    """A function of one lane, traced, applied to all. It may be called after vmap has ended, and has collectives over its axis."""
    avals = [lane_aval(x, d) for x, d in zip(args, dims)]
    with named_axis(axis.name, axis.size):
        jaxpr, captured, _ = trace_flat(f, avals, name=what)
    return batch_eval(jaxpr, [*captured, *args], [*([None] * len(captured)), *dims], axis)


@dataclass(frozen=True)
class BatchedJvp:
    """The derivative rule of a `custom_jvp_call` for all lanes; results are batched in dimension 0 if `mapped`."""

    rule: Callable[..., Any]
    axis: Axis
    dims: tuple[Dim, ...]
    mapped: bool = True

    @property
    def __name__(self) -> str:
        return getattr(self.rule, "__name__", "jvp")

    def __call__(self, primals: list[Any], tangents: list[Any]) -> tuple[list[Any], list[Any]]:
        given = [not is_zero(t) for t in tangents]
        n = len(primals)
        mask: list[bool] = []

        def lane(*xs: Any) -> list[Any]:
            values = iter(xs[n:])
            ts = [next(values) if g else Zero(lane_aval(x, None).tangent()) for g, x in zip(given, xs[:n])]
            outs, out_ts = self.rule(list(xs[:n]), ts)
            mask[:] = [not is_zero(t) for t in out_ts]
            return [*outs, *(t for t in out_ts if not is_zero(t))]

        args = [*primals, *(t for t in tangents if not is_zero(t))]
        dims = [*self.dims, *(d for d, g in zip(self.dims, given) if g)]
        out, out_dims = _apply_batched(lane, args, dims, self.axis, "custom_jvp")
        out = _placed(out, out_dims, self.axis, self.mapped, "custom_jvp")
        outs, ts = split(out, len(mask))
        values = iter(ts)
        return outs, [next(values) if m else Zero(aval_of(x).tangent()) for m, x in zip(mask, outs)]


def _placed(values: Sequence[Any], dims: Sequence[Dim], axis: Axis, mapped: bool, what: str) -> list[Any]:
    """Results of a rule where the function's are: batched in dimension 0, or the same for all lanes."""
    if not mapped and any(d is not None for d in dims):
        raise TypeError(
            f"{what}: the function's results are the same for all lanes, those of its rule are not{where(current_source())}"
        )
    return [force_dim(x, d, axis.size) for x, d in zip(values, dims)] if mapped else list(values)


def _batched_function(call_jaxpr: ClosedJaxpr, axis: Axis, dims: Sequence[Dim]) -> tuple[Batched, bool]:
    """A function for all lanes, and whether its results are batched; not so where nothing that it reads or gives is.

    Then it has collectives over the axis.
    """
    if all(d is None for d in dims):
        b = batch_jaxpr(call_jaxpr, axis, tuple(dims))
        if not any(b.out_batched):
            return b, False
    return batch_jaxpr(call_jaxpr, axis, tuple(dims), (True,) * len(call_jaxpr.out_avals)), True


@batching(calls.custom_jvp_call_p)
def _custom_jvp(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, name: str, call_jaxpr: ClosedJaxpr,
    jvp_jaxpr_fun: Any, num_consts: int, symbolic_zeros: bool,
) -> tuple[Any, Any]:  # fmt: skip
    b, mapped = _batched_function(call_jaxpr, axis, dims)
    out = calls.custom_jvp_call_p.bind(
        *b.captured, *operands, name=name, call_jaxpr=b.closed,
        jvp_jaxpr_fun=BatchedJvp(jvp_jaxpr_fun, axis, tuple(dims[num_consts:]), mapped),
        num_consts=len(b.captured) + num_consts, symbolic_zeros=symbolic_zeros,
    )  # fmt: skip
    return out, b.out_dims


@dataclass(frozen=True)
class BatchedVjp:
    """The rules of a `custom_vjp_call` for all lanes; results and their cotangents are batched in dimension 0 if `mapped`."""

    fwd_rule: Callable[..., Any]
    bwd_rule: Callable[..., Any]
    axis: Axis
    dims: tuple[Dim, ...]
    mapped: bool = True
    # The batch dimensions of the residuals by the avals of the residuals, filled by the forward rule.
    residual_dims: dict[Any, list[Dim]] = field(default_factory=lambda: {}, compare=False, repr=False)

    def fwd(self, args: list[Any], nonzeros: Sequence[bool]) -> tuple[list[Any], list[Any]]:
        """The results for all lanes and the residuals, batched as `residual_dims` notes."""
        n_out = 0

        def lane(*xs: Any) -> list[Any]:
            nonlocal n_out
            outs, residuals = self.fwd_rule(list(xs), nonzeros)
            n_out = len(outs)
            return [*outs, *residuals]

        out, dims = _apply_batched(lane, args, self.dims, self.axis, "custom_vjp")
        outs = _placed(out[:n_out], dims[:n_out], self.axis, self.mapped, "custom_vjp")
        residuals = out[n_out:]
        self.residual_dims[tuple(map(aval_of, residuals))] = dims[n_out:]
        return outs, residuals

    def bwd(self, residuals: list[Any], cts: list[Any]) -> list[Any]:
        """The cotangents of the arguments for all lanes, from those of the results."""
        dims = self.residual_dims[tuple(map(aval_of, residuals))]
        given = [not is_zero(c) for c in cts]
        n = len(residuals)
        mask: list[bool] = []

        def lane(*xs: Any) -> list[Any]:
            values = iter(xs[n:])
            full = [next(values) if g else Zero(self._lane(c.aval)) for g, c in zip(given, cts)]
            out = self.bwd_rule(list(xs[:n]), full)
            mask[:] = [c is not None and not is_zero(c) for c in out]
            return [c for c, m in zip(out, mask) if m]

        args = [*residuals, *(c for c in cts if not is_zero(c))]
        ct_dims: list[Dim] = [0 if self.mapped else None] * sum(given)
        out, out_dims = _apply_batched(lane, args, [*dims, *ct_dims], self.axis, "custom_vjp")
        values = iter(zip(out, out_dims, strict=True))
        result: list[Any] = []
        for m, want in zip(mask, self.dims, strict=True):
            if not m:
                result.append(None)
                continue
            c, d = next(values)
            if want is not None:
                c = force_dim(c, d, self.axis.size, want)
            elif d is not None:  # the argument is the same for all lanes: its cotangent is their sum
                c = rd.reduce_sum(c, (d,))
            elif self.mapped:
                c = sum_of_equal(c, self.axis.size)
            result.append(c)
        return result

    def _lane(self, aval: ShapedArray) -> ShapedArray:
        return aval.update(shape=aval.shape[1:]) if self.mapped else aval


@dataclass(frozen=True)
class _Bound:
    """A method of a `BatchedVjp` that is equal whenever the object is."""

    owner: BatchedVjp
    method: str

    @property
    def __name__(self) -> str:
        return self.method

    def __call__(self, *args: Any) -> Any:
        return getattr(self.owner, self.method)(*args)


@batching(calls.custom_vjp_call_p)
def _custom_vjp(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, name: str, call_jaxpr: ClosedJaxpr,
    fwd_jaxpr_thunk: Any, bwd: Any, num_consts: int, symbolic_zeros: bool,
) -> tuple[Any, Any]:  # fmt: skip
    b, mapped = _batched_function(call_jaxpr, axis, dims)
    rules = BatchedVjp(fwd_jaxpr_thunk, bwd, axis, tuple(dims[num_consts:]), mapped)
    out = calls.custom_vjp_call_p.bind(
        *b.captured, *operands, name=name, call_jaxpr=b.closed, fwd_jaxpr_thunk=_Bound(rules, "fwd"),
        bwd=_Bound(rules, "bwd"), num_consts=len(b.captured) + num_consts, symbolic_zeros=symbolic_zeros,
    )  # fmt: skip
    return out, b.out_dims


def _apply_rule(
    rule: Any, axis: Axis, in_batched: Sequence[bool], args: Sequence[Value]
) -> tuple[list[Any], list[bool]]:
    """What a rule gives for arguments of which the batched ones have the lanes as dimension 0.

    A derivative calls the function's rule with those arguments as batched of which value and tangent are. Where only one of the
    two differs by lane, in every argument that is batched, the rule is called for one lane, and its derivative batched; where
    others are batched in both, the one that does not differ is repeated, so that the rule is called once.
    """
    if not isinstance(rule, RuleJvp):
        outs, batched = rule(axis.size, list(in_batched), list(args))
        return list(outs), list(batched)
    n = len(rule.nonzeros)
    places = iter(range(n, len(args)))
    place = [next(places) if nz else None for nz in rule.nonzeros]
    both = [p is not None and in_batched[i] and in_batched[p] for i, p in enumerate(place)]
    values, dims = list(args), [0 if b else None for b in in_batched]
    if any(both):
        both = [in_batched[i] or (p is not None and in_batched[p]) for i, p in enumerate(place)]
        for i, p in enumerate(place):
            for k in (i, p) if both[i] else ():
                if k is not None:
                    values[k], dims[k] = force_dim(values[k], dims[k], axis.size), None
    batched: list[bool] = []

    def applied(*xs: Any) -> list[Any]:
        outs, flags = _apply_rule(rule.rule, axis, both, xs)
        batched[:] = flags
        return outs

    avals = [lane_aval(x, d) for x, d in zip(values, dims)]
    jaxpr, captured, _ = trace_flat(applied, avals[:n], name="custom_vmap rule")
    d = jvp_jaxpr(ClosedJaxpr(jaxpr), ((False,) * len(captured)) + rule.nonzeros, rule.out_nonzeros)
    lanes = ClosedJaxpr(d.closed.jaxpr)
    given = [*d.captured, *captured, *values]
    outs, out_dims = batch_eval(lanes.jaxpr, given, [*([None] * (len(given) - len(values))), *dims], axis)
    # A result that its rule left alike in all lanes has a tangent that is; tangents that the function does not have are zero.
    flags = [*batched, *(b for b, nz in zip(batched, rule.out_nonzeros) if nz)]
    kept = [*outs[: len(batched)], *_wanted(outs[len(batched) :], d.nonzeros, rule.out_nonzeros)]
    kept_dims = [*out_dims[: len(batched)], *_wanted(out_dims[len(batched) :], d.nonzeros, rule.out_nonzeros)]
    moved = [x if k is None else move_dim(x, k, 0) for x, k in zip(kept, kept_dims)]
    return moved, [b or k is not None for b, k in zip(flags, kept_dims)]


def _wanted(values: Sequence[Any], given: Sequence[bool], wanted: Sequence[bool]) -> list[Any]:
    each = iter(values)
    found = [next(each) if g else None for g in given]
    return [x for x, w in zip(found, wanted, strict=True) if w]


@batching(calls.custom_vmap_call_p)
def _custom_vmap(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, name: str, call_jaxpr: ClosedJaxpr, rule: Any,
    num_consts: int,
) -> tuple[Any, Any]:  # fmt: skip
    if any(d is not None for d in dims[:num_consts]):
        raise TypeError(
            f"custom_vmap {name}: the function closes over a value that is mapped{where(current_source())}: pass it as an "
            "argument, so that the rule sees it"
        )
    args = [x if d is None else move_dim(x, d, 0) for x, d in zip(operands[num_consts:], dims[num_consts:])]
    outs, batched = _apply_rule(rule, axis, [d is not None for d in dims[num_consts:]], args)
    for i, (x, b, a) in enumerate(zip(outs, batched, call_jaxpr.out_avals, strict=True)):
        want = batched_aval(a, 0 if b else None, axis.size)
        got = aval_of(x)
        if got.shape != want.shape or got.dtype != want.dtype:
            raise TypeError(
                f"custom_vmap {name}: the rule returned {got.short()} as result {i}, declared "
                f"{'batched' if b else 'not batched'}; expected {want.short()}"
            )
    return outs, [0 if b else None for b in batched]


batching.absent("it is made by the fuse pass, after every transformation", calls.fusion_p)
batching.absent("it exists only between linearisation and transposition", calls.custom_lin_p)


# -- linear solves -----------------------------------------------------------------------------------------------------


@batching(calls.custom_linear_solve_p)
def _solve(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, const_lengths: tuple[int, ...],
    jaxprs: tuple[Any, ...],
) -> tuple[Any, Any]:  # fmt: skip
    *consts, b = split(operands, *const_lengths)
    *const_dims, _ = split(dims, *const_lengths)
    b_dims = split(dims, sum(const_lengths))[1]
    n_out = len(jaxprs[2].out_avals)
    # The solution, b and everything between is batched in dimension 0.
    b = [force_dim(x, d, axis.size) for x, d in zip(b, b_dims)]
    new_consts: list[list[Any]] = []
    new_jaxprs: list[Any] = []
    for jaxpr, xs, ds in zip(jaxprs, consts, const_dims, strict=True):
        if jaxpr is None:
            new_jaxprs.append(None)
            new_consts.append([])
            continue
        p = batch_jaxpr(jaxpr, axis, (*ds, *([0] * len(b))), (True,) * len(jaxpr.out_avals))
        new_jaxprs.append(p.closed)
        new_consts.append([*p.captured, *xs])
    out = calls.custom_linear_solve_p.bind(
        *(x for part in new_consts for x in part), *b, const_lengths=tuple(map(len, new_consts)),
        jaxprs=tuple(new_jaxprs),
    )  # fmt: skip
    return out, [0] * n_out


# -- host functions ----------------------------------------------------------------------------------------------------


@batching(calls.pure_callback_p)
def _pure_callback(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], **params: Any
) -> tuple[Any, Any]:  # fmt: skip
    return _by_method(calls.pure_callback_p, axis, operands, dims, params)


@batching(calls.ffi_call_p)
def _ffi_call(axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], **params: Any) -> tuple[Any, Any]:
    return _by_method(calls.ffi_call_p, axis, operands, dims, params)


def _by_method(
    p: Primitive, axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], params: dict[str, Any]
) -> tuple[Any, Any]:
    """A function of the host, called for all lanes as its parameter `vmap_method` says."""
    vmap_method: str | None = params["vmap_method"]
    if vmap_method == "sequential":
        return one_by_one(axis, operands, dims, lambda *xs: p.bind(*xs, **params))
    if vmap_method not in ("expand_dims", "broadcast_all", "legacy_vectorized"):
        raise NotImplementedError(
            f"vmap of {p.name}: give vmap_method= to {p.name}: 'sequential' (one call a lane), 'expand_dims' "
            f"or 'broadcast_all' (one call with a leading batch dimension), got {vmap_method!r}"
        )
    from quire.ir.primitives import structural as st

    args: list[Any] = []
    for x, d in zip(operands, dims):
        if d is not None or vmap_method == "broadcast_all":
            args.append(force_dim(x, d, axis.size))
        elif vmap_method == "expand_dims":
            args.append(st.reshape(x, (1, *aval_of(x).shape)))
        else:
            args.append(x)
    avals = tuple(batched_aval(a, 0, axis.size) for a in params["result_avals"])
    out = p.bind(*args, **{**params, "result_avals": avals})
    return out, [0] * len(out)


@batching(calls.kernel_call_p)
def _kernel_call(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, kernel: Any, reference: ClosedJaxpr | None,
    result_avals: tuple[ShapedArray, ...],
) -> tuple[Any, Any]:  # fmt: skip
    # A finished kernel is finished anew, with one more dimension of its grid: devices that one program simulates ask for it.
    moved = [x if d is None else move_dim(x, d, 0) for x, d in zip(operands, dims)]
    has = tuple(d is not None for d in dims)
    lanes = tuple(0 if h else None for h in has)
    batched = reference and batch_jaxpr(reference, axis, lanes, (True,) * len(result_avals))
    avals = tuple(batched_aval(a, 0, axis.size) for a in result_avals)
    out = calls.kernel_call_p.bind(
        *moved, kernel=kernel.batched(axis.size, has), result_avals=avals,
        reference=batched.closed if batched and not batched.captured else None,
    )  # fmt: skip
    return out, [0] * len(out)


batching.absent("another package's primitive has its own rule; this is what it is lowered to", calls.stablehlo_call_p)


@batching(calls.io_callback_p)
def _io_callback(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, callback: Any,
    result_avals: tuple[ShapedArray, ...], ordered: bool,
) -> tuple[Any, Any]:  # fmt: skip
    if ordered and not axis.devices:
        raise ValueError("vmap of io_callback: ordered=True has no meaning for lanes that run at the same time")
    return one_by_one(
        axis, operands, dims,
        lambda *xs: calls.io_callback_p.bind(*xs, callback=callback, result_avals=result_avals, ordered=ordered),
    )  # fmt: skip


@batching(calls.debug_callback_p)
def _debug_callback(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, callback: Any, ordered: bool
) -> tuple[Any, Any]:
    return one_by_one(
        axis, operands, dims, lambda *xs: calls.debug_callback_p.bind(*xs, callback=callback, ordered=ordered)
    )


@batching(calls.check_p)
def _check(axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], **params: Any) -> tuple[Any, Any]:
    return calls.check_p.bind(*(force_dim(x, d, axis.size) for x, d in zip(operands, dims)), **params), []
