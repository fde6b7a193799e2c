"""Sums over mesh axes that are put off, in types: `P(unreduced={'x'})`, and values that were made equal, `P(reduced={'x'})`.

The value of an unreduced array is the sum of what the devices along those axes hold, so operations that are linear in it may
be applied before the sum is taken. A reduced value is the same on all of these devices, and its cotangent is unreduced. Which
operations take and give them is as in JAX; where JAX has no rule (it takes few), the operations that are linear have one here.
Types say it of explicit axes (`ShapedArray.division`) and, in the function of a `shard_map`, of manual ones (`ShapedArray.manual`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .avals import NO_AXES, AxisNames, Reduced, ShapedArray, Unreduced, axes_marked, marked
from .errors import ShardingTypeError
from .sharding import AxisName, axes_of

Axes = frozenset[AxisName]
NONE: Axes = frozenset()
Params = Mapping[str, Any]

# Linear in their first operand, whatever the others are (positions, padding).
_LINEAR = frozenset((
    "neg", "copy", "convert_element_type", "real", "imag", "conj", "transpose", "reshape", "squeeze", "broadcast_in_dim", "slice",
    "split", "tile",
    "dynamic_slice", "gather", "pad", "rev", "reduce_sum", "cumsum", "expand_dims", "optimization_barrier",
))  # fmt: skip
# Linear in all of their operands together.
_SUMS = frozenset(("add", "sub", "add_any", "concatenate", "dynamic_update_slice", "scatter-add"))


# Linear in each of two operands.
_PRODUCTS = frozenset(("mul", "dot_general", "conv_general_dilated"))


def of_division(a: Any, kind: str) -> Axes:
    """The explicit axes along which a type is `kind`: "unreduced" or "reduced"."""
    division = a.division
    return NONE if division is None else getattr(division.spec, kind)


def put_off(name: str, family: str, avals: Sequence[Any], params: Params, strict: bool) -> tuple[Axes, Axes]:
    """The explicit axes over which the results of an equation are unreduced, and those over which they are reduced.

    Args:
        name, family: those of the equation's primitive.
        avals, params: the types of its operands and its parameters.
        strict: whether what does not go together is an error.

    Raises:
        ShardingTypeError: operands that do not go together (`strict`).
        NotImplementedError: the operation is not linear in an unreduced operand (`strict`).
    """
    summed = [of_division(a, "unreduced") for a in avals]
    equal = [of_division(a, "reduced") for a in avals]
    if not any(summed) and not any(equal):
        return NONE, NONE
    # Contractions give values of their own.
    reduced = NONE if name == "dot_general" else _reduced(family, avals, summed, equal, strict)
    if not any(summed):
        return NONE, reduced
    try:
        if name == "dot_general":
            raise ShardingTypeError(
                f"lhs or rhs passed to dot_general cannot be unreduced. Got lhs={avals[0].short()} and rhs={avals[1].short()}: "
                "take the sum first, by quire.reshard"
            )
        return _unreduced(name, avals, params, summed, equal), reduced if name != "mul" else NONE
    except (ShardingTypeError, NotImplementedError):
        if strict:
            raise
        return NONE, NONE


def along_manual_axes(name: str, family: str, avals: Sequence[Any], params: Params) -> AxisNames:
    """What the results' types say of manual axes, where an operand is unreduced or reduced along one.

    Operands vary along the same axes already. A number goes with operands of any kind.

    Raises as `put_off`.
    """
    vma = NO_AXES.union(*(a.vma for a in avals))
    summed = [axes_marked(a.manual, Unreduced) for a in avals]
    equal = [axes_marked(a.manual, Reduced) for a in avals]
    reduced = _reduced("elementwise" if name in _PRODUCTS else family, avals, summed, equal, True)
    unreduced = NONE
    if any(summed):
        unreduced = _unreduced(name, avals, params, summed, equal, numbers=True)
        reduced -= unreduced
    return vma | marked(unreduced, Unreduced) | marked(reduced, Reduced)


#: Families whose nested jaxprs are applied to elements: nothing is known of them.
_OF_ELEMENTS = frozenset(("reductions", "windows", "indexing", "sorting"))


def check_elements(name: str, family: str, avals: Sequence[Any]) -> None:
    """Raise NotImplementedError where a jaxpr is applied to the elements of an unreduced value."""
    if family in _OF_ELEMENTS:
        refuse_unreduced(name, avals)


def refuse_unreduced(name: str, avals: Sequence[Any]) -> None:
    """Raise NotImplementedError where a value is unreduced, as the operation is not linear in it."""
    if any(axes_marked(a.manual, Unreduced) for a in avals):
        raise _no_rule(name)


def _reduced(family: str, avals: Sequence[Any], summed: Sequence[Axes], equal: Sequence[Axes], strict: bool) -> Axes:
    kinds = set(filter(None, equal))
    if not kinds:
        return NONE
    axes = next(iter(kinds))
    if not strict:
        return axes
    if len(kinds) > 1:
        raise ShardingTypeError(
            f"All inputs should be reduced across the same mesh axes. Got specs: {kinds}; give quire.reshard(x, ...) of one"
        )
    if family == "elementwise":
        for a, own, due in zip(avals, equal, summed):
            if not a.ndim or own == axes:
                continue  # a number is what every device has
            spec = () if a.division is None else a.division.spec
            if axes.intersection(x for e in spec for x in axes_of(e)):
                raise ShardingTypeError(
                    "Inputs cannot be sharded/varying on the same axes that another input is reduced on. Reshard the input "
                    "which is reduced to be sharded on the mesh axes it is reduced on via `quire.sharding.reshard(inp, "
                    f"quire.P(...))`. Got input type: {a.short()} and reduced spec: {axes}"
                )
            if axes - due:
                raise ShardingTypeError(
                    "Inputs cannot be replicated on the same axes that another input is reduced on. Got input type: "
                    f"{a.short()} and reduced spec: {axes}: give quire.reshard(x, {axes and _spec(axes)}) of it"
                )
    return axes


def _spec(axes: Axes) -> str:
    return f"P(reduced={{{', '.join(sorted(map(repr, axes)))}}})"


def _unreduced(
    name: str,
    avals: Sequence[Any],
    params: Params,
    summed: Sequence[Axes],
    equal: Sequence[Axes],
    numbers: bool = False,
) -> Axes:
    """The axes over which the results are unreduced; `numbers`: whether what is unreduced may be multiplied by any number."""

    def scales(i: int, axes: Axes) -> bool:
        return equal[i] == axes or numbers and not equal[i] and not avals[i].ndim

    if name in _SUMS:
        arrays = [(a, u) for a, u in zip(avals, summed) if a.ndim or name in ("add", "sub", "add_any", "scatter-add")]
        if name == "dynamic_update_slice":
            arrays = arrays[:2]
        if name == "scatter-add":
            arrays = [arrays[0], arrays[2]]
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
    if name in _PRODUCTS:
        if all(summed):
            raise ShardingTypeError(
                f"lhs and rhs to `{name}` cannot be unreduced since {name} is bilinear. Got lhs={summed[0]}, rhs={summed[1]}"
            )
        i = 0 if summed[0] else 1
        if not scales(1 - i, summed[i]):
            one, other = ("LHS", "RHS") if i == 0 else ("RHS", "LHS")
            raise ShardingTypeError(
                f"{other} should be reduced along the same axes {one} is unreduced on. Got lhs={avals[0].short()} and "
                f"rhs={avals[1].short()}"
            )
        return summed[i]
    if name == "div" and numbers and not summed[1] and scales(1, summed[0]):
        return summed[0]
    if name == "select_n" and not summed[0] and len(set(summed[1:])) == 1:
        return summed[1]
    if name in _LINEAR and not any(summed[1:]):
        if name == "convert_element_type" and not _same_kind(avals[0], params["new_dtype"]):
            raise _no_rule(name)
        return summed[0]
    raise _no_rule(name)


def _same_kind(a: ShapedArray, dtype: Any) -> bool:
    return a.dtype.kind == dtype.kind or {a.dtype.kind, dtype.kind} <= {"f", "V", "c"}


def _no_rule(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"unreduced rule for {name} is not implemented: it is not linear. Take the sum first, by quire.reshard(x, P(...))"
    )


__all__ = ["along_manual_axes", "check_elements", "of_division", "put_off", "refuse_unreduced"]
