"""emulate-spmd: shard_map as ordinary equations on whole arrays, for devices that one program simulates.

A dimension of size n that k devices divide becomes two, (k, n / k). The jaxpr of one device is batched over the first of
them, for each mesh axis; the batching rules of collectives make reductions, slices and reshapes of communication. A value
that no device holds otherwise than the others is computed once. Compile time does not grow with the number of devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from quire.ir.avals import NO_AXES, ShapedArray, aval_of
from quire.ir.axes import mesh_axes
from quire.ir.errors import PassError
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Params, Var, all_eqns, map_nested
from quire.ir.primitives import collectives as co
from quire.ir.primitives import structural as st
from quire.ir.primitives.shard_map import shard_map_p
from quire.ir.sharding import AxisName, PartitionSpec, axes_of
from quire.ir.source import where
from quire.ir.tracing import eval_jaxpr, trace_flat

from .base import Pass, PassContext, register_pass
from .batching.batch import batch_jaxpr
from .batching.rules import Axis
from .rewriting import copy_eqns, transform_nested, with_params

# A dimension of an array in the making: one of the device's part by its number, or a mesh axis by its name.
_Tag = tuple[str, Any]


@register_pass
@dataclass(frozen=True)
class EmulateSpmd(Pass):
    """Make ordinary equations on whole arrays of shard_map, also inside loops, branches and calls."""

    name = "emulate-spmd"

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        if not any(e.primitive is shard_map_p for e in all_eqns(program.jaxpr)):
            return program
        constants: dict[Var, Any] = {}
        jaxpr = self._jaxpr(program.jaxpr, context, constants)
        jaxpr = Jaxpr((*jaxpr.constvars, *constants), jaxpr.invars, jaxpr.outvars, jaxpr.eqns)
        return ClosedJaxpr(jaxpr, (*program.consts, *constants.values()))

    def _jaxpr(self, jaxpr: Jaxpr, context: PassContext, constants: dict[Var, Any] | None = None) -> Jaxpr:
        if not any(e.primitive is shard_map_p for e in all_eqns(jaxpr)):
            return jaxpr
        env: dict[Var, Atom] = {}
        eqns: list[Eqn] = []

        def read(a: Atom) -> Atom:
            return env.get(a, a) if isinstance(a, Var) else a

        for eqn in jaxpr.eqns:
            eqn = eqn.replace(inputs=[read(a) for a in eqn.inputs])
            if eqn.primitive is not shard_map_p:
                params = transform_nested(eqn.params, context, self, lambda j: self._jaxpr(j, context))
                eqns.append(with_params(eqn, params))
                continue
            context.counters["shard_map"] += 1
            made, captured = emulated(eqn.params, [a.aval for a in eqn.inputs])
            if captured and constants is None:
                raise PassError(
                    f"{self}: batching a shard_map in a loop or branch{where(eqn.source)} makes {len(captured)} arrays of "
                    "constants, which a nested program cannot hold: compute them outside and close over them"
                )
            if constants is not None:
                constants.update(zip(made.jaxpr.invars, captured))
            body = self._jaxpr(made.jaxpr, context, constants)  # a shard_map over other axes within
            results = copy_eqns(body, [*made.jaxpr.invars[: len(captured)], *eqn.inputs], {}, eqns.append, eqn)
            env.update(zip(eqn.outputs, results, strict=True))
        return Jaxpr(jaxpr.constvars, jaxpr.invars, [read(a) for a in jaxpr.outvars], eqns)


def without_varying(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with types that do not say along which axes values vary, and without the casts."""
    names: dict[Var, Atom] = {}

    def plain(aval: Any) -> Any:
        return aval.update(vma=NO_AXES) if isinstance(aval, ShapedArray) and aval.manual else aval

    def bound(v: Var) -> Var:
        new = names[v] = Var(plain(v.aval)) if v.aval.manual else v
        return new  # pyright: ignore[reportReturnType]

    def read(a: Atom) -> Atom:
        return a if isinstance(a, Literal) else names[a]

    constvars, invars = [bound(v) for v in jaxpr.constvars], [bound(v) for v in jaxpr.invars]
    eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        if eqn.primitive in (co.pvary_p, co.pcast_p):
            names[eqn.outputs[0]] = read(eqn.inputs[0])
            continue
        params = dict(map_nested(eqn.params, lambda j: ClosedJaxpr(without_varying(j.jaxpr), j.consts)))
        if eqn.primitive is shard_map_p:
            params["check_vma"] = False  # types no longer tell
        if eqn.primitive is co.all_gather_p:
            params.pop("to", None)
        if params.get("vmap_method", "") is None:  # each device calls a function of the host for itself
            params["vmap_method"] = "sequential"
        for key, value in params.items():  # declared types of results
            if isinstance(value, tuple) and ShapedArray in map(type, cast("tuple[Any, ...]", value)):
                params[key] = tuple(map(plain, cast("tuple[Any, ...]", value)))
        inputs = [read(a) for a in eqn.inputs]
        eqns.append(eqn.replace(inputs=inputs, outputs=[bound(v) for v in eqn.outputs], params=params))
    return Jaxpr(constvars, invars, [read(a) for a in jaxpr.outvars], eqns)


def emulated(params: Params, avals: Sequence[ShapedArray]) -> tuple[ClosedJaxpr, list[Any]]:
    """A shard_map equation as a jaxpr of whole arrays, and what it captured."""
    mesh, manual = params["mesh"], params["manual_axes"]
    sizes: dict[AxisName, int] = {a: mesh.shape[a] for a in mesh.axis_names if a in manual}
    body = ClosedJaxpr(without_varying(params["jaxpr"].jaxpr))
    tags = [_expanded(spec, aval.ndim, manual) for spec, aval in zip(params["in_specs"], avals)]
    out_tags: list[list[_Tag]] = [[("dim", d) for d in range(a.ndim)] for a in body.out_avals]
    captured: list[Any] = []
    with mesh_axes(sizes, False):
        for name in reversed(list(sizes)):
            done = list(sizes)[list(sizes).index(name) :]
            dims = tuple(_position(t, name, done) for t in tags)
            batched = batch_jaxpr(body, Axis(sizes[name], name, devices=True), (*(None for _ in captured), *dims))
            captured = [*batched.captured, *captured]
            body = batched.closed
            for t, d in zip(out_tags, batched.out_dims, strict=True):
                if d is not None:
                    t.insert(d, ("axis", name))

    def whole(*xs: Any) -> list[Any]:
        operands = [
            _divided(x, spec, manual, sizes) for x, spec in zip(xs[len(captured) :], params["in_specs"], strict=True)
        ]
        outs = eval_jaxpr(body.jaxpr, (), [*xs[: len(captured)], *operands])
        return [
            _together(x, t, spec, manual, sizes) for x, t, spec in zip(outs, out_tags, params["out_specs"], strict=True)
        ]

    plain = [a.update(vma=NO_AXES) for a in avals]
    traced, more, _ = trace_flat(whole, [*map(aval_of, captured), *plain], name="shard_map")
    return ClosedJaxpr(traced), [*more, *captured]


def _entries(spec: PartitionSpec, ndim: int, manual: Any) -> list[list[AxisName]]:
    """The manual axes that divide each dimension."""
    found = [[a for a in axes_of(e) if a in manual] for e in spec]
    return [*found, *[[] for _ in range(ndim - len(found))]]


def _expanded(spec: PartitionSpec, ndim: int, manual: Any) -> list[_Tag]:
    """The dimensions of an operand in which each mesh axis has one of its own, before what it divides."""
    tags: list[_Tag] = []
    for d, axes in enumerate(_entries(spec, ndim, manual)):
        tags += [*(("axis", a) for a in axes), ("dim", d)]
    return tags


def _position(tags: Sequence[_Tag], name: AxisName, done: Sequence[AxisName]) -> int | None:
    """Where an axis is among the dimensions of the part and the axes that are batched already."""
    if ("axis", name) not in tags:
        return None
    present = [t for t in tags if t[0] == "dim" or t[1] in done]
    return present.index(("axis", name))


def _divided(x: Any, spec: PartitionSpec, manual: Any, sizes: dict[AxisName, int]) -> Any:
    """x with a dimension for each mesh axis."""
    aval = aval_of(x)
    shape: list[int] = []
    for n, axes in zip(aval.shape, _entries(spec, aval.ndim, manual)):
        ks = [sizes[a] for a in axes]
        for k in ks:
            n //= k
        shape += [*ks, n]
    return x if tuple(shape) == aval.shape else st.reshape(x, shape)


def _together(x: Any, tags: Sequence[_Tag], spec: PartitionSpec, manual: Any, sizes: dict[AxisName, int]) -> Any:
    """The whole result: of axes that the spec lacks what is at index 0, the others merged with what they divide."""
    tags = list(tags)
    ndim = sum(t[0] == "dim" for t in tags)
    entries = _entries(spec, ndim, manual)
    wanted = [t for d, axes in enumerate(entries) for t in (*(("axis", a) for a in axes), ("dim", d))]
    for tag in [t for t in tags if t not in wanted]:
        i, shape = tags.index(tag), aval_of(x).shape
        if shape[i] > 1:
            x = st.slice(x, [0] * len(shape), [1 if j == i else n for j, n in enumerate(shape)])
        x = st.reshape(x, (*shape[:i], *shape[i + 1 :]))
        del tags[i]
    order = [tags.index(t) for t in wanted if t in tags]
    if order != sorted(order):
        x = st.transpose(x, order)
    present = [t for t in wanted if t in tags]
    if len(present) < len(wanted):  # equal on all devices of an axis that is to divide the result
        shape = aval_of(x).shape
        full = [shape[present.index(t)] if t in present else sizes[t[1]] for t in wanted]
        x = st.broadcast_in_dim(x, full, [i for i, t in enumerate(wanted) if t in present])
    shape = aval_of(x).shape
    merged: list[int] = []
    n = 1
    for (kind, _), k in zip(wanted, shape, strict=True):
        n *= k
        if kind == "dim":
            merged.append(n)
            n = 1
    return x if tuple(merged) == shape else st.reshape(x, merged)
