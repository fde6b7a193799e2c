"""Vectorisation of jaxprs over a mapped axis.

- ``batch_eval(jaxpr, args, dims, axis) -> (outs, out_dims)``: binds the batched equations in the current context.
- ``batch_jaxpr(closed, axis, in_dims, out_batched) -> Batched``: from jaxpr to jaxpr, cached.

A dim is the position of the mapped dimension in a batched value, None for a value that is the same for all lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, nested_jaxprs
from quire.ir.primitives import control_flow as cf
from quire.ir.source import SourceSetter, where
from quire.ir.tracing import rebind, trace_flat
from quire.ir.wide import keeps_wide

from ..cache import cached_transform
from ..dce import dce_eqns
from .rules import Axis, Dim, batching, broadcast_batch, move_dim

# Parameters in which collectives name the axes they work over.
_AXIS_PARAMS = ("axis_name", "axes")


def names_axis(eqn: Eqn, name: Any) -> bool:
    """Whether an equation, or one nested in it, works over the named axis."""
    for key in _AXIS_PARAMS:
        value = eqn.params.get(key)
        if value is not None and (value == name or (isinstance(value, tuple) and name in value)):
            return True
    for inner in nested_jaxprs(eqn.params):
        jaxpr = inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner
        if any(names_axis(e, name) for e in jaxpr.eqns):
            return True
    return False


@keeps_wide
def batch_eval(jaxpr: Jaxpr, args: Sequence[Any], dims: Sequence[Dim], axis: Axis) -> tuple[list[Any], list[Dim]]:
    """Evaluate a jaxpr without constants for all lanes at once, in the current context.

    Equations that no lane differs in are evaluated once. Returns the results and their batch dimensions.

    Raises NotImplementedError, with the user's line, for a batched equation whose primitive has no batching rule.
    """
    env: dict[Var, Any] = dict(zip(jaxpr.invars, args, strict=True))
    dim: dict[Var, int] = {v: d for v, d in zip(jaxpr.invars, dims, strict=True) if d is not None}
    with SourceSetter() as at:
        for eqn in jaxpr.eqns:
            at(eqn.source)
            values = [a.python_value if isinstance(a, Literal) else env[a] for a in eqn.inputs]
            in_dims = [None if isinstance(a, Literal) else dim.get(a) for a in eqn.inputs]
            if all(d is None for d in in_dims) and not (axis.name is not None and names_axis(eqn, axis.name)):
                env.update(zip(eqn.outputs, rebind(eqn, values)))
                continue
            rule = batching.get(eqn.primitive)
            if rule is None:
                why = batching.reasons.get(eqn.primitive, "no batching rule has been written")
                raise NotImplementedError(f"vmap of {eqn.primitive.name}{where(eqn.source)}: {why}")
            out, out_dims = rule(axis, values, in_dims, **eqn.params)
            if not eqn.primitive.multiple_results:
                out, out_dims = (out,), (out_dims,)
            for v, x, d in zip(eqn.outputs, out, out_dims, strict=True):
                env[v] = x
                if d is not None:
                    dim[v] = d
    outs = [a.python_value if isinstance(a, Literal) else env[a] for a in jaxpr.outvars]
    return outs, [None if isinstance(a, Literal) else dim.get(a) for a in jaxpr.outvars]


def batched_aval(aval: ShapedArray, dim: Dim, size: int) -> ShapedArray:
    """The aval of all lanes together."""
    if dim is None:
        return aval
    return aval.update(shape=(*aval.shape[:dim], size, *aval.shape[dim:]))


def lane_aval(x: Any, dim: Dim) -> ShapedArray:
    """The aval of one lane of a batched value."""
    aval = aval_of(x)
    return aval if dim is None else aval.update(shape=(*aval.shape[:dim], *aval.shape[dim + 1 :]))


def force_dim(x: Any, dim: Dim, size: int, to: int = 0) -> Any:
    """x with its batch dimension at `to`; repeated where it has none."""
    return broadcast_batch(x, size, to) if dim is None else move_dim(x, dim, to)


@dataclass(frozen=True)
class Batched:
    """A batched jaxpr: `closed` takes the captured values and the inputs, batched as given."""

    closed: ClosedJaxpr
    out_dims: tuple[Dim, ...]
    captured: tuple[Any, ...]

    @property
    def out_batched(self) -> tuple[bool, ...]:
        """Whether each result has a batch dimension."""
        return tuple(d is not None for d in self.out_dims)


@cached_transform()
def batch_jaxpr(
    closed: ClosedJaxpr, axis: Axis, in_dims: tuple[Dim, ...], out_batched: tuple[bool | None, ...] | None = None
) -> Batched:
    """A jaxpr (without constants) for all lanes of the axis.

    `out_batched` forces outputs: True puts the batch dimension first, repeating what is the same for all lanes;
    False takes it as it comes, but first where there is one. Without it dimensions stay where the rules leave them.
    """
    avals = [batched_aval(a, d, axis.size) for a, d in zip(closed.in_avals, in_dims, strict=True)]
    out_dims: tuple[Dim, ...] = ()

    def flat(*xs: Any) -> list[Any]:
        nonlocal out_dims
        outs, dims = batch_eval(closed.jaxpr, xs, in_dims, axis)
        if out_batched is not None:
            for i, force in enumerate(out_batched):
                if force or dims[i] is not None:
                    outs[i] = force_dim(outs[i], dims[i], axis.size)
                    dims[i] = 0
        out_dims = tuple(dims)
        return outs

    traced, captured, _ = trace_flat(flat, avals, name="vectorisation")
    return Batched(ClosedJaxpr(dce_eqns(traced)), out_dims, tuple(captured))


def one_by_one(
    axis: Axis, operands: Sequence[Any], dims: Sequence[Dim], call: Callable[..., Sequence[Any]],
    name: str = "host function",
) -> tuple[list[Any], list[Dim]]:  # fmt: skip
    """What must not be batched (a host function, a lazy branch), called for one lane after the other in a scan."""
    fixed = [x for x, d in zip(operands, dims) if d is None]
    moving = [force_dim(x, d, axis.size) for x, d in zip(operands, dims) if d is not None]

    def lane(*xs: Any) -> Sequence[Any]:
        same, rows = iter(xs[: len(fixed)]), iter(xs[len(fixed) :])
        return call(*(next(same) if d is None else next(rows) for d in dims))

    avals = [*map(aval_of, fixed), *(lane_aval(x, 0) for x in moving)]
    jaxpr, captured, _ = trace_flat(lane, avals, name=name)
    out = cf.scan([*captured, *fixed], [], moving, ClosedJaxpr(jaxpr), length=axis.size)
    return out, [0] * len(out)
