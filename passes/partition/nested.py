"""Equations that hold programs, on parts: loops, branches, calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn
from quire.ir.primitives import calls
from quire.ir.primitives import control_flow as cf
from quire.ir.primitives.shard_map import shard_map_p
from quire.ir.source import where
from quire.ir.tracing import trace_flat

from ..emulate_spmd import without_varying
from .emission import Emitter, Held, Run, Value
from .propagation import Body, called
from .specs import Spec, from_partition_spec, local_shape, parts, replicated


def _local(aval: ShapedArray, spec: Spec, run: Run) -> ShapedArray:
    return aval.update(shape=local_shape(aval.shape, spec, run.emitter.sizes))


def _traced(run: Run, body: Body, specs: Sequence[Spec], results: Sequence[Spec], what: str) -> ClosedJaxpr:
    """A program on parts as a jaxpr that takes and gives values divided as told."""
    emitter: Emitter = run.emitter

    def f(*xs: Value) -> list[Value]:
        inner = Run(emitter, body)
        out = inner.run(zip(xs, specs, strict=True))
        return [
            emitter.moved(held, a.aval, spec, what)
            for held, a, spec in zip(out, body.jaxpr.outvars, results, strict=True)
        ]

    avals = [_local(v.aval, s, run) for v, s in zip(body.jaxpr.invars, specs, strict=True)]
    jaxpr, captured, _ = trace_flat(f, avals, name="partition")
    assert not captured, "the parts of a nested program come from its operands"
    return ClosedJaxpr(jaxpr)


def _specs(body: Body, atoms: Sequence[Atom]) -> list[Spec]:
    return [body.get(a) for a in atoms]


def _give(run: Run, eqn: Eqn, outs: Sequence[Held]) -> None:
    for v, (x, spec) in zip(eqn.outputs, outs, strict=True):
        run.give(v, x, spec, f"result of {eqn.primitive.name}")


def _scan(run: Run, eqn: Eqn) -> None:
    p = eqn.params
    consts, carry = p["num_consts"], p["num_carry"]
    inner = run.body.body(eqn, 0, p["jaxpr"])
    ins = _specs(inner, inner.jaxpr.invars)
    ys = _specs(inner, inner.jaxpr.outvars[carry:])
    carried = ins[consts : consts + carry]
    whole: Spec = ((),)
    operands = [
        run.need(a, s if i < consts + carry else whole + s, f"operand {i} of scan")
        for i, (a, s) in enumerate(zip(eqn.inputs, ins, strict=True))
    ]
    jaxpr = _traced(run, inner, ins, [*carried, *ys], "what a turn of scan gives")
    out = cf.scan_p.bind(*operands, **{**p, "jaxpr": jaxpr})
    _give(run, eqn, list(zip(out, [*carried, *(whole + s for s in ys)])))


def _while(run: Run, eqn: Eqn) -> None:
    p = eqn.params
    m, n = p["cond_nconsts"], p["body_nconsts"]
    test = run.body.body(eqn, 0, p["cond_jaxpr"])
    inner = run.body.body(eqn, 1, p["body_jaxpr"])
    ins = _specs(inner, inner.jaxpr.invars)
    carried = ins[n:]
    test_specs = [*_specs(test, test.jaxpr.invars[:m]), *carried]
    name = eqn.primitive.name
    operands = [
        run.need(a, s, f"operand {i} of {name}")
        for i, (a, s) in enumerate(zip(eqn.inputs, [*test_specs[:m], *ins], strict=True))
    ]
    # All devices decide alike: the condition is a scalar, which is never divided.
    cond_jaxpr = _traced(run, test, test_specs, [()], f"the condition of {name}")
    body_jaxpr = _traced(run, inner, ins, carried, f"what a turn of {name} gives")
    out = eqn.primitive.bind(*operands, **{**p, "cond_jaxpr": cond_jaxpr, "body_jaxpr": body_jaxpr})
    _give(run, eqn, list(zip(out, carried)))


def _cond(run: Run, eqn: Eqn) -> None:
    bodies = [run.body.body(eqn, k, b) for k, b in enumerate(eqn.params["branches"])]
    ins = _specs(bodies[0], bodies[0].jaxpr.invars)
    outs = _specs(run.body, eqn.outputs)
    index = run.need(eqn.inputs[0], (), "the index of cond")
    operands = [
        run.need(a, s, f"operand {i} of cond") for i, (a, s) in enumerate(zip(eqn.inputs[1:], ins, strict=True))
    ]
    branches = tuple(_traced(run, b, ins, outs, "what a branch of cond gives") for b in bodies)
    _give(run, eqn, list(zip(cf.cond_p.bind(index, *operands, **{**eqn.params, "branches": branches}), outs)))


def _call(run: Run, eqn: Eqn) -> None:
    """The called program's equations in place of the call."""
    inner = run.body.body(eqn, 0, called(eqn))
    _give(run, eqn, run.emitter.run(inner, [run.read(a) for a in eqn.inputs]))


def _checkpoint(run: Run, eqn: Eqn) -> None:
    inner = run.body.body(eqn, 0, eqn.params["jaxpr"])
    ins = _specs(inner, inner.jaxpr.invars)
    outs = _specs(inner, inner.jaxpr.outvars)
    operands = [
        run.need(a, s, f"operand {i} of checkpoint") for i, (a, s) in enumerate(zip(eqn.inputs, ins, strict=True))
    ]
    jaxpr = _traced(run, inner, ins, outs, "what checkpoint gives")
    _give(run, eqn, list(zip(calls.checkpoint_p.bind(*operands, **{**eqn.params, "jaxpr": jaxpr}), outs)))


def _shard_map(run: Run, eqn: Eqn) -> None:
    """The program of a device in place of the equation: of the values that it computes a device holds no parts.

    Raises ValueError where the function is for another mesh.
    """
    p = eqn.params
    sizes = run.emitter.sizes
    if any(sizes.get(a) != p["mesh"].shape[a] for a in p["manual_axes"]):
        raise ValueError(
            f"partition: shard_map is over {dict(p['mesh'].shape)}, the program over {dict(sizes)}{where(eqn.source)}"
        )
    args: list[Held] = []
    for i, (a, s) in enumerate(zip(eqn.inputs, p["in_specs"], strict=True)):
        x = run.need(a, from_partition_spec(s, a.aval.ndim), f"operand {i} of shard_map")
        args.append((x, replicated(a.aval.ndim)))
    outs = run.emitter.run(Body(without_varying(p["jaxpr"].jaxpr), sizes), args)
    specs = [from_partition_spec(s, v.aval.ndim) for s, v in zip(p["out_specs"], eqn.outputs, strict=True)]
    found: list[Held] = []
    for (x, inner), spec, v in zip(outs, specs, p["jaxpr"].jaxpr.outvars, strict=True):
        # Along axes that are not manual the partitioner may have divided the device's part further.
        if any(n % parts(axes, sizes) for n, axes in zip(v.aval.shape, inner)):
            x, inner = run.emitter.moved((x, inner), v.aval, replicated(v.aval.ndim), "result of shard_map"), spec[:0]
        found.append((x, tuple((*m, *(inner[d] if inner else ())) for d, m in enumerate(spec))))
    _give(run, eqn, found)


NESTED: dict[str, Callable[[Run, Eqn], Any]] = {
    cf.scan_p.name: _scan,
    cf.while_p.name: _while,
    cf.bounded_while_p.name: _while,
    cf.cond_p.name: _cond,
    calls.checkpoint_p.name: _checkpoint,
    calls.jit_p.name: _call,
    calls.fusion_p.name: _call,
    calls.custom_jvp_call_p.name: _call,
    calls.custom_vjp_call_p.name: _call,
    calls.custom_vmap_call_p.name: _call,
    shard_map_p.name: _shard_map,
}
