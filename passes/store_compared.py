"""store-compared: a value that is compared with what was selected from it is computed once.

Backends compute cheap values again wherever they are read, and a compiler of machine code may round a product and a sum together
in one place and apart in another, or approximate a function in vectors here and by itself there. The two differ by a rounding,
which is what floats are; but ``x == max(x)`` is then true nowhere. The derivatives of maxima and of scatters with maxima
ask that, as do programs that keep the largest elements (``x >= top_k(x)[..., -1:]``).

Two kinds of values are told apart here:

- one whose elements depend on where they are computed: a sum with a product in it, an approximated function, and what is
  computed elementwise of such a value;
- one that was *selected*: moved, repeated, taken as the largest or smallest, or chosen from others. Its elements are those of its
  *origins*.

Where the operands of a comparison have an origin of the first kind in common, an `optimization_barrier` makes backends store
the origin; in kernels of loops it is an array in memory. Differences (``x - max(x)``) are left alone: they are right but for a
rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quire.ir import dtypes
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var, has_nested, subst_eqn
from quire.ir.primitives import calls, control_flow
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives.structural import optimization_barrier_p

from .base import Pass, PassContext, register_pass
from .rewriting import transform_nested, with_params

COMPARISONS = frozenset((ew.eq_p, ew.ne_p, ew.lt_p, ew.le_p, ew.gt_p, ew.ge_p))
PRODUCTS = frozenset((ew.mul_p, ew.square_p, ew.integer_pow_p))
SUMS = frozenset((ew.add_p, ew.sub_p))
# Elementwise, with results that are the operands' elements, or these with another sign or dtype.
SELECTING = frozenset(
    (ew.max_p, ew.min_p, ew.clamp_p, ew.select_n_p, ew.neg_p, ew.abs_p, ew.real_p, ew.imag_p, ew.convert_element_type_p)
)
# By name: of families of which others compute.
_SELECTING_NAMES = frozenset((
    "reduce_max", "reduce_min", "cummax", "cummin", "sort", "top_k", "reduce", "reduce_window", "reduce_window_max",
    "reduce_window_min", "scatter", "scatter-max", "scatter-min", "gather", "dynamic_slice", "dynamic_update_slice",
    "all_gather", "all_to_all", "ppermute", "pmax", "pmin",
))  # fmt: skip
# Programs in these are applied to arrays; in others (reduce, scatter, sort) to single elements.
_APPLIED = frozenset((control_flow.scan_p, control_flow.while_p, control_flow.bounded_while_p, control_flow.cond_p))
# So many origins are followed; a value with more is one itself.
MOST_ORIGINS = 16

_Origins = frozenset[Var]
_NONE: _Origins = frozenset()


@register_pass
@dataclass(frozen=True)
class StoreCompared(Pass):
    """Store what is compared with a selection of itself, where its elements would depend on where they are computed."""

    name = "store-compared"

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        jaxpr = _store(program.jaxpr, context)
        return program if jaxpr is program.jaxpr else ClosedJaxpr(jaxpr, program.consts)


def _store(jaxpr: Jaxpr, context: PassContext) -> Jaxpr:
    eqns = [_nested(eqn, context) for eqn in jaxpr.eqns]
    wanted = _compared(eqns)
    if not wanted and all(a is b for a, b in zip(eqns, jaxpr.eqns)):
        return jaxpr
    env: dict[Var, Atom] = {}
    out: list[Eqn] = []
    for eqn in eqns:
        out.append(subst_eqn(eqn, env))
        for v in eqn.outputs:
            if v in wanted:
                stored = Var(v.aval)
                out.append(Eqn((v,), (stored,), optimization_barrier_p, {}, source=eqn.source))
                env[v] = stored
                context.counters["stored"] += 1
    return Jaxpr(
        jaxpr.constvars, jaxpr.invars, [env.get(a, a) if isinstance(a, Var) else a for a in jaxpr.outvars], out
    )


def _nested(eqn: Eqn, context: PassContext) -> Eqn:
    if eqn.primitive not in _APPLIED and eqn.primitive.family not in ("calls", "shard_map"):
        return eqn
    if eqn.primitive is calls.fusion_p:
        return eqn
    return with_params(eqn, transform_nested(eqn.params, context, "store-compared", lambda j: _store(j, context)))


def _compared(eqns: Sequence[Eqn]) -> set[Var]:
    """The origins that the operands of some comparison have in common."""
    origins: dict[Var, _Origins] = {}
    uncertain = set[Var]()  # the first kind
    products = set[Var]()
    wanted = set[Var]()

    def of(a: Atom) -> _Origins:
        return origins.get(a, _NONE) if isinstance(a, Var) else _NONE

    for eqn in eqns:
        p = eqn.primitive
        if p in COMPARISONS:
            x, y = eqn.inputs
            if x is not y:
                wanted |= of(x) & of(y)
        elif _selects(eqn):
            found = _NONE.union(*map(of, eqn.inputs))
            moved = p in SELECTING or p.family == "structural"
            for v in eqn.outputs:
                if dtypes.is_bool(v.aval.dtype):
                    continue
                if len(found) > MOST_ORIGINS:
                    origins[v] = frozenset((v,))
                elif found:
                    origins[v] = found
                if moved and any(a in uncertain for a in eqn.inputs):
                    uncertain.add(v)
                elif moved and any(a in products for a in eqn.inputs):
                    products.add(v)
        elif p.family == "elementwise":
            (v,) = eqn.outputs
            if dtypes.is_bool(v.aval.dtype):
                continue
            if _uncertain(eqn, uncertain, products):
                uncertain.add(v)
                origins[v] = frozenset((v,))
            elif p in PRODUCTS:
                products.add(v)
    return wanted


def _selects(eqn: Eqn) -> bool:
    p = eqn.primitive
    return p in SELECTING or p.family == "structural" or p.name in _SELECTING_NAMES or has_nested(eqn.params)


def _uncertain(eqn: Eqn, uncertain: set[Var], products: set[Var]) -> bool:
    """Whether the elements of an elementwise equation depend on where they are computed."""
    p = eqn.primitive
    if p.rounding == "approximate" or any(a in uncertain for a in eqn.inputs):
        return True
    if p in SUMS:
        return any(a in products for a in eqn.inputs)
    return p in PRODUCTS and dtypes.is_complex(eqn.outputs[0].aval.dtype)


__all__ = ["StoreCompared"]
