"""Operands of an equation in the function of a `shard_map` with check_vma: brought to types that go together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .avals import NO_AXES, AxisNames, Reduced, ShapedArray, Unreduced, axes_marked
from .jaxpr import Atom, Literal, Var
from .primitive import Primitive, find_primitive
from .references import ADD_EFFECT, WRITE_EFFECT, AbstractRef
from .source import Source, current_source, where

Record = Callable[[Primitive, Sequence[Atom], Mapping[str, Any], Source | None], tuple[Var, ...]]


def varying_alike(
    record: Record, p: Primitive, inputs: Sequence[Atom], params: Mapping[str, Any], source: Source | None
) -> Sequence[Atom]:
    """Operands that vary along the same mesh axes: those that vary along fewer are cast, so that derivatives sum.

    `record` appends the casts to the program. Raises TypeError where a reference would have to be cast to be written to.
    """
    if len(inputs) < 2 or not p.joins_varying(params):
        return inputs
    if ShapedArray.any_sums and any(a.aval.manual is not a.aval.vma for a in inputs):
        inputs = _sums_alike(record, inputs, source)
    if all(a.aval.vma == inputs[0].aval.vma for a in inputs):
        return inputs
    vma = NO_AXES.union(*(a.aval.vma for a in inputs))
    cast = find_primitive("pvary")

    def alike(a: Atom) -> Atom:
        missing = vma - a.aval.vma - axes_marked(a.aval.manual, Unreduced)
        if not missing or isinstance(a, Literal):  # a number has no derivative
            return a
        if type(a.aval) is AbstractRef:
            if p.effects_rule is not None and not p.effects(params).isdisjoint((WRITE_EFFECT, ADD_EFFECT)):
                axes = ", ".join(sorted(map(str, missing)))
                raise TypeError(
                    f"{p.name}: the reference {a.aval.short()} is the same along the mesh axes {axes}, along which what is "
                    f"written, or its place, varies{where(source or current_source(2))}: combine it first (lax.psum), or "
                    "divide the reference along them (in_specs)"
                )
            return a
        return record(cast, [a], {"axes": _in_order(missing)}, source)[0]

    return [alike(a) for a in inputs]


def _sums_alike(record: Record, inputs: Sequence[Atom], source: Source | None) -> Sequence[Atom]:
    """Operands of which one is unreduced or reduced along a manual axis.

    What is reduced varies where another operand does; numbers are reduced where another operand is reduced or unreduced, so that
    derivatives with respect to them sum.
    """
    arrays = [a.aval for a in inputs if type(a.aval) is ShapedArray]
    vma = NO_AXES.union(*(a.aval.vma for a in inputs))
    sums = NO_AXES.union(*(a.mat.unreduced | a.mat.reduced for a in arrays)) - vma
    cast = find_primitive("pcast")

    def alike(a: Atom) -> Atom:
        if isinstance(a, Literal) or type(a.aval) is not ShapedArray:
            return a
        reduced = axes_marked(a.aval.manual, Reduced)
        steps = [(reduced & vma, "varying")]
        if not a.aval.ndim and not axes_marked(a.aval.manual, Unreduced):
            steps.append((sums - reduced, "reduced"))
        for axes, to in steps:
            if axes:
                a = record(cast, [a], {"axes": _in_order(axes), "to": to}, source)[0]
        return a

    return [alike(a) for a in inputs]


def _in_order(axes: AxisNames) -> tuple[Any, ...]:
    return tuple(sorted(axes, key=str))


__all__ = ["varying_alike"]
