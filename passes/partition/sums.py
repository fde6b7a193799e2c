"""Sums over explicit mesh axes that are put off, in types: `P(unreduced={'x'})`, and values that were made equal, `P(reduced={'x'})`.

The value of an unreduced array is the sum of what the devices along those axes hold, so operations that are linear in it may
be applied before the sum is taken. A reduced value is the same on all of these devices, and its cotangent is unreduced. Which
operations take and give them is as in JAX; where JAX has no rule (it takes few), the operations that are linear have one here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.errors import ShardingTypeError
from quire.ir.jaxpr import Params
from quire.ir.primitive import Primitive
from quire.ir.sharding import AbstractMesh, AxisName, axes_of

Axes = frozenset[AxisName]
NONE: Axes = frozenset()

# Linear in their first operand, whatever the others are (positions, padding).
_LINEAR = frozenset((
    "neg", "copy", "convert_element_type", "real", "imag", "conj", "transpose", "reshape", "squeeze", "broadcast_in_dim", "slice",
    "split", "tile",
    "dynamic_slice", "gather", "pad", "rev", "reduce_sum", "cumsum", "expand_dims", "optimization_barrier",
))  # fmt: skip
# Linear in all of their operands together.
_SUMS = frozenset(("add", "sub", "add_any", "concatenate", "dynamic_update_slice"))


def _of(a: Any, kind: str) -> Axes:
    division = a.division
    return NONE if division is None else getattr(division.spec, kind)


def put_off(p: Primitive, avals: Sequence[Any], params: Params, mesh: AbstractMesh, strict: bool) -> tuple[Axes, Axes]:
    """The axes over which the results of an equation are unreduced, and those over which they are reduced.

    Raises:
        ShardingTypeError: operands that do not go together (`strict`).
        NotImplementedError: the operation is not linear in an unreduced operand (`strict`).
    """
    summed = [_of(a, "unreduced") for a in avals]
    equal = [_of(a, "reduced") for a in avals]
    if not any(summed) and not any(equal):
        return NONE, NONE
    reduced = _reduced(p, avals, equal, mesh, strict)
    if not any(summed):
        return NONE, reduced
    try:
        return _unreduced(p, avals, params, summed, equal), reduced if p.name != "mul" else NONE
    except (ShardingTypeError, NotImplementedError):
        if strict:
            raise
        return NONE, NONE


def _reduced(p: Primitive, avals: Sequence[Any], equal: Sequence[Axes], mesh: AbstractMesh, strict: bool) -> Axes:
    if p.name == "dot_general" or not any(equal):
        return NONE  # contractions give values of their own
    kinds = set(filter(None, equal))
    axes = next(iter(kinds))
    if not strict:
        return axes
    if len(kinds) > 1:
        raise ShardingTypeError(
            f"All inputs should be reduced across the same mesh axes. Got specs: {kinds}; give quire.reshard(x, ...) of one"
        )
    if p.family == "elementwise":
        for a, own in zip(avals, equal):
            if not a.ndim or own == axes:
                continue  # a number is what every device has
            spec = () if a.division is None else a.division.spec
            if axes.intersection(x for e in spec for x in axes_of(e)):
                raise ShardingTypeError(
                    "Inputs cannot be sharded/varying on the same axes that another input is reduced on. Reshard the input "
                    "which is reduced to be sharded on the mesh axes it is reduced on via `quire.sharding.reshard(inp, "
                    f"quire.P(...))`. Got input type: {a.short()} and reduced spec: {axes}"
                )
            if axes - _of(a, "unreduced"):
                raise ShardingTypeError(
                    "Inputs cannot be replicated on the same axes that another input is reduced on. Got input type: "
                    f"{a.short()} and reduced spec: {axes}: give quire.reshard(x, {axes and _spec(axes)}) of it"
                )
    return axes


def _spec(axes: Axes) -> str:
    return f"P(reduced={{{', '.join(sorted(map(repr, axes)))}}})"


def _unreduced(
    p: Primitive, avals: Sequence[Any], params: Params, summed: Sequence[Axes], equal: Sequence[Axes]
) -> Axes:
    name = p.name
    if name in _SUMS:
        arrays = [(a, u) for a, u in zip(avals, summed) if a.ndim or name in ("add", "sub", "add_any")]
        if name == "dynamic_update_slice":
            arrays = arrays[:2]
        kinds = {u for _, u in arrays}
        if len(kinds) == 1:
            return kinds.pop()
        if NONE in kinds and len(arrays) == 2:
            one, other = ("lhs", "rhs") if arrays[0][1] else ("rhs", "lhs")
            raise ShardingTypeError(
                f"{one} is unreduced while {other} is not. `{name}` operation does not allow this because there will be implicit "
                f"communication. Please reduce {one} via `reshard` before calling `{name}`."
            )
        if name == "concatenate":
            raise ShardingTypeError(
                f"All operands should be unreduced along the same mesh axes. Got unreduced specs: {kinds - {NONE}}"
            )
        raise ShardingTypeError(
            f"lhs and rhs to `{name}` must be unreduced along the same mesh axes. Got lhs={summed[0]}, rhs={summed[1]}"
        )
    if name == "mul":
        if all(summed):
            raise ShardingTypeError(
                f"lhs and rhs to `mul` cannot be unreduced since mul is bilinear. Got lhs={summed[0]}, rhs={summed[1]}"
            )
        i = 0 if summed[0] else 1
        if equal[1 - i] != summed[i]:
            one, other = ("LHS", "RHS") if i == 0 else ("RHS", "LHS")
            raise ShardingTypeError(
                f"{other} should be reduced along the same axes {one} is unreduced on. Got lhs={avals[0].short()} and "
                f"rhs={avals[1].short()}"
            )
        return summed[i]
    if name == "select_n" and not summed[0] and len(set(summed[1:])) == 1:
        return summed[1]
    if name in _LINEAR and not any(summed[1:]):
        if name == "convert_element_type" and not _same_kind(avals[0], params["new_dtype"]):
            raise _no_rule(name)
        return summed[0]
    if name == "dot_general":
        raise ShardingTypeError(
            f"lhs or rhs passed to dot_general cannot be unreduced. Got lhs={avals[0].short()} and rhs={avals[1].short()}: "
            "take the sum first, by quire.reshard"
        )
    raise _no_rule(name)


def _same_kind(a: ShapedArray, dtype: Any) -> bool:
    return a.dtype.kind == dtype.kind or {a.dtype.kind, dtype.kind} <= {"f", "V", "c"}


def _no_rule(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"unreduced rule for {name} is not implemented: it is not linear. Take the sum first, by quire.reshard(x, P(...))"
    )


__all__ = ["put_off"]
