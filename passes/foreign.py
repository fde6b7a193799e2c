"""Primitives of other packages: what they are lowered to takes their place before a program is compiled.

A package registers the lowering of its primitive as JAX's packages do (`quire.interpreters.mlir.register_lowering`): a
function of traced operations, for all targets or for some. `expand` binds what each equation is lowered to, also in
loops, branches and calls. It runs before the program's key in the persistent cache is taken, so that the key is of what
is compiled; arrays that a lowering captures become constants of the program, and operands of what is nested.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, map_nested, nested_jaxprs
from quire.ir.primitive import Primitive
from quire.ir.primitives import calls
from quire.ir.primitives import control_flow as cf
from quire.ir.primitives.shard_map import shard_map_p
from quire.ir.sharding import PartitionSpec
from quire.ir.source import SourceSetter, where
from quire.ir.tracing import bind, merge_captured, no_trace, rebind, trace_flat

from .rebuild import split

Value: TypeAlias = Any
# lower(eqn, operands, target) -> the results of the equation as traced values.
Lowering: TypeAlias = Callable[[Eqn, Sequence[Value], str], Sequence[Value]]

_lowerings: dict[Primitive, dict[str | None, Lowering]] = {}

PLATFORMS: dict[str, tuple[str, ...]] = {"cuda": ("cuda", "gpu"), "rocm": ("rocm", "gpu"), "metal": ("metal", "METAL")}
"""JAX's names of a target's platform, the nearest first; of other targets their own name."""


def define_lowering(p: Primitive, lowering: Lowering, platform: str | None = None) -> None:
    """Say what equations of a primitive are lowered to, on one platform (JAX's names) or wherever nothing else is said.

    One of quire's own primitives is lowered in this way instead of in its own.
    """
    _lowerings.setdefault(p, {})[platform] = lowering


def lowering_of(p: Primitive, target: str) -> Lowering | None:
    """The lowering of a primitive for a target; None where there is none."""
    rules = _lowerings.get(p)
    if rules is None:
        return None
    for platform in (*PLATFORMS.get(target, (target,)), None):
        if platform in rules:
            return rules[platform]
    return None


def expand(closed: ClosedJaxpr, target: str) -> ClosedJaxpr:
    """The program with every equation of a foreign primitive replaced by what it is lowered to for the target.

    Raises:
        NotImplementedError: a primitive has no lowering for the target.
    """
    if not (Primitive.any_foreign or _lowerings) or not _concerns(closed.jaxpr, target):
        return closed
    jaxpr = closed.jaxpr
    inputs = (*jaxpr.constvars, *jaxpr.invars)
    with no_trace():
        traced, captured, _ = trace_flat(
            lambda *xs: _evaluate(jaxpr, xs, target), [v.aval for v in inputs], name="the lowering of a program"
        )
    n = len(captured) + len(jaxpr.constvars)
    found = Jaxpr(traced.invars[:n], traced.invars[n:], traced.outvars, traced.eqns, debug_info=jaxpr.debug_info)
    return ClosedJaxpr(found, (*captured, *closed.consts))


def _concerns(jaxpr: Jaxpr, target: str) -> bool:
    """Whether there is something to replace."""
    for eqn in jaxpr.eqns:
        p = eqn.primitive
        if p.foreign or p in _lowerings and lowering_of(p, target) is not None:
            return True
        if any(_concerns(_open(j), target) for j in nested_jaxprs(eqn.params)):
            return True
    return False


def _open(j: Jaxpr | ClosedJaxpr) -> Jaxpr:
    return j.jaxpr if isinstance(j, ClosedJaxpr) else j


def _evaluate(jaxpr: Jaxpr, args: Sequence[Value], target: str) -> list[Value]:
    """Bind a jaxpr without constants in the current trace, foreign primitives expanded."""
    env: dict[Var, Value] = dict(zip((*jaxpr.constvars, *jaxpr.invars), args, strict=True))
    with SourceSetter() as at:
        for eqn in jaxpr.eqns:
            at(eqn.source)
            values = [a.python_value if isinstance(a, Literal) else env[a] for a in eqn.inputs]
            env.update(zip(eqn.outputs, _lowered(eqn, values, target), strict=True))
    return [a.python_value if isinstance(a, Literal) else env[a] for a in jaxpr.outvars]


def _lowered(eqn: Eqn, values: Sequence[Value], target: str) -> Sequence[Value]:
    lowering = lowering_of(eqn.primitive, target)
    if lowering is not None:
        return _expanded(lowering, eqn, values, target)
    if eqn.primitive.foreign:
        raise NotImplementedError(
            f"MLIR translation rule for primitive '{eqn.primitive.name}' not found for platform {target}"
            f"{where(eqn.source)}: register one with mlir.register_lowering(p, mlir.lower_fun(f, multiple_results=...))"
        )
    if not any(_concerns(_open(j), target) for j in nested_jaxprs(eqn.params)):
        return rebind(eqn, values)
    return _NESTED.get(eqn.primitive, _others)(eqn, list(values), target)


def _expanded(lowering: Lowering, eqn: Eqn, values: Sequence[Value], target: str) -> list[Value]:
    """The results of one lowered equation, which may be lowered to other foreign primitives."""
    jaxpr, captured, _ = trace_flat(
        lambda *xs: list(lowering(eqn, xs, target)),
        [a.aval for a in eqn.inputs],
        name=f"the lowering of {eqn.primitive.name}",
    )
    return _fitting(eqn, _evaluate(jaxpr, [*captured, *values], target))


def _fitting(eqn: Eqn, results: list[Value]) -> list[Value]:
    """The results, which must have the types that the equation says.

    Raises TypeError where they have not.
    """
    found = [getattr(x, "aval", None) for x in results]
    if len(results) != len(eqn.outputs):
        raise TypeError(
            f"{eqn.primitive.name}: its lowering gives {len(results)} result(s), its abstract evaluation {len(eqn.outputs)}"
        )
    for i, (got, v) in enumerate(zip(found, eqn.outputs)):
        want = v.aval
        if got is not None and (got.shape, got.dtype) != (want.shape, want.dtype):
            raise TypeError(
                f"{eqn.primitive.name}: result {i} of its lowering is {got.short()}, its abstract evaluation says "
                f"{want.short()}"
            )
    return results


# -- equations that hold jaxprs ---------------------------------------------------------------------------------------


def _traced(closed: ClosedJaxpr, target: str) -> tuple[Jaxpr, list[Value]]:
    """A nested jaxpr, expanded, and what it captures, which are its first inputs."""
    jaxpr, captured, _ = trace_flat(
        lambda *xs: _evaluate(closed.jaxpr, xs, target), closed.in_avals, name="the lowering of a nested function"
    )
    return jaxpr, list(captured)


def _bind(eqn: Eqn, values: Sequence[Value], **params: Any) -> Sequence[Value]:
    return bind(eqn.primitive, values, {**eqn.params, **params})


def _in_place(eqn: Eqn, values: list[Value], target: str) -> Sequence[Value]:
    """A call that says nothing to the compiler: its derivatives have been taken by now."""
    closed: ClosedJaxpr = eqn.params["jaxpr" if "jaxpr" in eqn.params else "call_jaxpr"]
    return _evaluate(closed.jaxpr, values, target)


def _checkpoint(eqn: Eqn, values: list[Value], target: str) -> Sequence[Value]:
    jaxpr, captured = _traced(eqn.params["jaxpr"], target)
    return _bind(eqn, [*captured, *values], jaxpr=ClosedJaxpr(jaxpr))


def _cond(eqn: Eqn, values: list[Value], target: str) -> Sequence[Value]:
    traced = [_traced(b, target) for b in eqn.params["branches"]]
    union, branches = merge_captured([j for j, _ in traced], [c for _, c in traced])
    return _bind(eqn, [values[0], *union, *values[1:]], branches=tuple(branches))


def _while(eqn: Eqn, values: list[Value], target: str) -> Sequence[Value]:
    params = eqn.params
    for_cond, for_body, carry = split(values, params["cond_nconsts"], params["body_nconsts"])
    cond, cond_captured = _traced(params["cond_jaxpr"], target)
    body, body_captured = _traced(params["body_jaxpr"], target)
    return _bind(
        eqn, [*cond_captured, *for_cond, *body_captured, *for_body, *carry],
        cond_jaxpr=ClosedJaxpr(cond), cond_nconsts=len(cond_captured) + len(for_cond),
        body_jaxpr=ClosedJaxpr(body), body_nconsts=len(body_captured) + len(for_body),
    )  # fmt: skip


def _scan(eqn: Eqn, values: list[Value], target: str) -> Sequence[Value]:
    jaxpr, captured = _traced(eqn.params["jaxpr"], target)
    linear = eqn.params.get("linear") or ()
    return _bind(
        eqn, [*captured, *values], jaxpr=ClosedJaxpr(jaxpr), num_consts=len(captured) + eqn.params["num_consts"],
        linear=((False,) * len(captured) + tuple(linear)) if linear else linear,
    )  # fmt: skip


def _solve(eqn: Eqn, values: list[Value], target: str) -> Sequence[Value]:
    """Of the functions of a linear solve only the solver is compiled."""
    lengths, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    start = lengths[0] + lengths[1]
    return _evaluate(jaxprs[2].jaxpr, [*values[start : start + lengths[2]], *values[sum(lengths) :]], target)


def _shard_map(eqn: Eqn, values: list[Value], target: str) -> Sequence[Value]:
    jaxpr, captured = _traced(eqn.params["jaxpr"], target)
    specs = (*(PartitionSpec() for _ in captured), *eqn.params["in_specs"])
    return _bind(eqn, [*captured, *values], jaxpr=ClosedJaxpr(jaxpr), in_specs=specs)


def _others(eqn: Eqn, values: list[Value], target: str) -> Sequence[Value]:
    """What holds a function of a few numbers, such as a reduction: there is nowhere for more operands.

    Raises NotImplementedError where the function's lowering captures arrays.
    """

    def one(closed: ClosedJaxpr) -> ClosedJaxpr:
        jaxpr, captured = _traced(closed, target)
        if captured:
            raise NotImplementedError(
                f"{eqn.primitive.name}{where(eqn.source)} applies a primitive whose lowering captures arrays: there it may "
                "use its operands and numbers alone"
            )
        return ClosedJaxpr(jaxpr)

    out = _bind(eqn, values, **map_nested(eqn.params, one))
    return out if eqn.primitive.multiple_results else [out]


_NESTED: dict[Primitive, Callable[[Eqn, list[Value], str], Sequence[Value]]] = {
    calls.jit_p: _in_place,
    calls.custom_jvp_call_p: _in_place,
    calls.custom_vjp_call_p: _in_place,
    calls.custom_vmap_call_p: _in_place,
    calls.checkpoint_p: _checkpoint,
    calls.custom_linear_solve_p: _solve,
    cf.cond_p: _cond,
    cf.while_p: _while,
    cf.bounded_while_p: _while,
    cf.scan_p: _scan,
    shard_map_p: _shard_map,
}
