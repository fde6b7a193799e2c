"""join-sums: a sum of sums is one sum.

The mean over a batch of per-example gradients, `pmean` of the gradients of simulated devices, and the sum of a `vmap` compute a
sum for each example and add these up. Where nothing else reads the sums of the examples:

- a reduction of a reduction by the same monoid is one over the axes of both;
- a sum over batch dimensions of `dot_general` contracts over them: one large product instead of many, whose results are
  never stored;
- the sum of a large product of two arrays that were repeated along each other's dimensions (``x[:, :, None] * y[:, None, :]``) is
  the contraction that it stands for.

Terms are added in another order, as kernels do too; so this is a pass of its own and no rule of `simplify`, whose rules are
exact. Sums of halves stay: the sums of the parts are rounded to 11 or 8 bits, and a program may be written for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quire.ir import dtypes
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Params, Var
from quire.ir.primitives import contraction as con
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as red
from quire.ir.primitives import structural as st

from .base import Pass, PassContext, register_pass
from .rewriting import transform_nested, with_params

LARGE = 1 << 14
"""So many elements of a product are not stored to be summed; smaller ones are part of what kernels compute anyway."""
_EXACT = (con.Precision.HIGHEST, con.Precision.HIGHEST)
_REDUCTIONS = frozenset((red.reduce_sum_p, red.reduce_max_p, red.reduce_min_p, red.reduce_and_p, red.reduce_or_p))


@register_pass
@dataclass(frozen=True)
class JoinSums(Pass):
    """Make one reduction of a reduction of a reduction, and one contraction of the sum of a batch of contractions."""

    name = "join-sums"

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        jaxpr = _join(program.jaxpr, context)
        return program if jaxpr is program.jaxpr else ClosedJaxpr(jaxpr, program.consts)


def _join(jaxpr: Jaxpr, context: PassContext) -> Jaxpr:
    uses = Counter[Atom](a for eqn in jaxpr.eqns for a in eqn.inputs if isinstance(a, Var))
    uses.update(a for a in jaxpr.outvars if isinstance(a, Var))
    made: dict[Atom, Eqn] = {}
    eqns: list[Eqn] = []
    joined = set[Var]()
    changed = False
    for old in jaxpr.eqns:
        eqn = with_params(old, transform_nested(old.params, context, "join-sums", lambda j: _join(j, context)))
        if eqn.primitive in _REDUCTIONS:
            inner = made.get(eqn.inputs[0])
            found = _joined(inner, eqn, made) if inner is not None and uses[eqn.inputs[0]] == 1 else ()
            if inner is not None and found and context.may_rewrite():
                context.rewrote(f"join {inner.primitive.name}", eqn)
                joined.update(inner.outputs)
                eqns += found[:-1]
                eqn = found[-1]
        changed = changed or eqn is not old
        if len(eqn.outputs) == 1:
            made[eqn.outputs[0]] = eqn
        eqns.append(eqn)
    if not changed:
        return jaxpr
    eqns = [eqn for eqn in eqns if not (eqn.outputs and eqn.outputs[0] in joined)]
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns)


def _joined(inner: Eqn, outer: Eqn, made: Mapping[Atom, Eqn]) -> Sequence[Eqn]:
    """The equations of both, the last of which gives the result; none where they stay as they are."""
    dtype = outer.outputs[0].aval.dtype
    if outer.primitive is red.reduce_sum_p and dtypes.is_float(dtype) and dtype.itemsize < 4:
        return ()
    if inner.primitive is outer.primitive:
        params = _of_reduction(inner, outer)
    elif inner.primitive is con.dot_general_p and outer.primitive is red.reduce_sum_p:
        params = _of_contraction(inner, outer)
    elif inner.primitive is ew.mul_p and outer.primitive is red.reduce_sum_p:
        return _of_product(inner, outer, made)
    else:
        return ()
    return () if params is None else [inner.replace(params=params, outputs=outer.outputs, source=outer.source)]


def _of_reduction(inner: Eqn, outer: Eqn) -> Params:
    axes: tuple[int, ...] = inner.params["axes"]
    more: tuple[int, ...] = outer.params["axes"]
    kept = [d for d in range(inner.inputs[0].aval.ndim) if d not in axes]
    return {"axes": tuple(sorted((*axes, *(kept[d] for d in more))))}


def _of_contraction(inner: Eqn, outer: Eqn) -> Params | None:
    """Batch dimensions that are summed become contracted.

    Only where all that is contracted then lies together, in the same order in both operands, which a product's kernel
    reads as one dimension.
    """
    dimensions: con.DotDimensionNumbers = inner.params["dimension_numbers"]
    (lhs, rhs), (lhs_batch, rhs_batch) = dimensions
    axes: tuple[int, ...] = outer.params["axes"]
    if not all(d < len(lhs_batch) for d in axes):
        return None
    pairs = sorted([*zip(lhs, rhs), *((lhs_batch[d], rhs_batch[d]) for d in axes)])
    if any(pairs[i + 1] != (a + 1, b + 1) for i, (a, b) in enumerate(pairs[:-1])):
        return None
    left = [d for d in range(len(lhs_batch)) if d not in axes]
    batch = tuple(lhs_batch[d] for d in left), tuple(rhs_batch[d] for d in left)
    contracted = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    return {**inner.params, "dimension_numbers": (contracted, batch)}


def _of_product(inner: Eqn, outer: Eqn, made: Mapping[Atom, Eqn]) -> Sequence[Eqn]:
    """A sum of products of repeated arrays as a contraction: over what is summed, of what each has for itself."""
    axes: tuple[int, ...] = outer.params["axes"]
    shape = inner.outputs[0].aval.shape
    arrays: list[Var] = []
    places: list[tuple[int, ...]] = []
    """Of each array, the dimension of the product along which each of its own lies."""
    for operand in inner.inputs:
        repeated = made.get(operand)
        if repeated is None or repeated.primitive is not st.broadcast_in_dim_p:
            return ()
        (array,) = repeated.inputs
        along: tuple[int, ...] = repeated.params["broadcast_dimensions"]
        if not isinstance(array, Var) or array.aval.shape != tuple(shape[d] for d in along):
            return ()
        arrays.append(array)
        places.append(along)
    left, right = (set(along) for along in places)
    inexact = dtypes.is_inexact(outer.outputs[0].aval.dtype)
    if not inexact or inner.outputs[0].aval.size < LARGE or not set(axes) <= left & right:
        return ()
    if not left - right or not right - left:
        return ()  # nothing was repeated for the other's sake
    both = [d for d in sorted(left & right) if d not in axes]
    order = [*both, *sorted(left - right), *sorted(right - left)]

    def where(dims: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(places[0].index(d) for d in dims), tuple(places[1].index(d) for d in dims)

    params: Params = {
        "dimension_numbers": (where(axes), where(both)), "precision": _EXACT, "preferred_element_type": None,
    }  # fmt: skip
    kept = sorted(order)
    result = outer.outputs[0]
    if order == kept:
        return [Eqn(arrays, [result], con.dot_general_p, params, source=outer.source)]
    product = Var(result.aval.update(shape=tuple(shape[d] for d in order)))
    turned: Params = {"permutation": tuple(order.index(d) for d in kept)}
    return [
        Eqn(arrays, [product], con.dot_general_p, params, source=outer.source),
        Eqn([product], [result], st.transpose_p, turned, source=outer.source),
    ]
