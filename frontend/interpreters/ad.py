"""Derivatives of other packages' primitives (`jax.interpreters.ad`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.dtypes import float0, is_inexact
from quire.ir.jaxpr import Var
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew
from quire.ir.tracing import Tracer
from quire.passes.ad.rules import Linear as UndefinedPrimal
from quire.passes.ad.rules import Zero, add_tangents, instantiate_any
from quire.passes.ad.rules import jvp as _jvp_table
from quire.passes.ad.rules import transpose as _transpose_table

from .. import tree_util
from ..absent_names import module_getattr
from ..extend.linear_util import WrappedFun, wrap_init
from ..transforms import differentiation
from .registries import Registry, Rule, values

Value = Any

add_jaxvals_p = ew.add_p


def _empty(_: Any) -> tuple[tuple[()], Any]:
    return (), _.aval


tree_util.register_pytree_node(Zero, _empty, lambda aval, _: Zero(aval))
tree_util.register_pytree_node(UndefinedPrimal, _empty, lambda aval, _: UndefinedPrimal(aval))


def is_undefined_primal(x: Any) -> bool:
    """Whether an operand of a transpose rule is one in which the equation is linear, known only by its aval."""
    return type(x) is UndefinedPrimal


def instantiate_zeros(tangent: Any) -> Value:
    """A tangent or cotangent as a value: zeros for a `Zero`."""
    return instantiate_any(tangent)


def zeros_like_aval(aval: ShapedArray) -> Value:
    """Zeros of a type."""
    return instantiate_any(Zero(aval))


def add_jaxvals(x: Value, y: Value) -> Value:
    """The sum of two cotangents."""
    return ew.add(x, y)


# -- the registries ---------------------------------------------------------------------------------------------------


def _tangent(t: Any) -> Any:
    """What a rule gave as a tangent: None, and an integer's, is zero."""
    return Zero(ShapedArray(t.shape, float0)) if getattr(t, "dtype", None) == float0 and type(t) is not Zero else t


def _jvp_inward(p: Primitive, rule: Rule) -> Rule:
    def apply(primals: Sequence[Value], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        out, out_tangents = rule(values(primals), list(tangents), **params)
        if p.multiple_results:
            return list(out), [_tangent(t) for t in out_tangents]
        return out, _tangent(out_tangents)

    return apply


def _jvp_outward(p: Primitive, rule: Rule) -> Rule:
    def apply(primals: Sequence[Value], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        if all(type(t) is Zero for t in tangents):
            out = p.bind(*primals, **params)
            zero = Zero.from_primal_value
            return (out, [zero(x) for x in out]) if p.multiple_results else (out, zero(out))
        return rule(primals, tangents, **params)

    return apply


def _transpose_inward(p: Primitive, rule: Rule) -> Rule:
    def apply(ct: Any, *operands: Any, **params: Any) -> Sequence[Any]:
        found = rule(ct, *values(operands), **params)
        if type(found) is Zero or found is None:
            return [None] * len(operands)
        return [None if x is None else _tangent(x) for x in found]

    return apply


primitive_jvps = Registry(_jvp_table, _jvp_inward, _jvp_outward)
"""``primitive_jvps[p] = rule``: ``rule(primals, tangents, **params)`` gives the results and their tangents.

A tangent is a value, or a `Zero`. For `multiple_results` there is a list of results and one of tangents.
"""

primitive_transposes = Registry(_transpose_table, _transpose_inward, lambda p, rule: rule)
"""``primitive_transposes[p] = rule``: ``rule(ct, *operands, **params)`` gives one cotangent for each operand.

Operands in which the equation is linear are an `UndefinedPrimal`; that of others is None. A cotangent may be a `Zero`.
"""

reducing_transposes: dict[Primitive, Rule] = {}


def get_primitive_transpose(p: Primitive) -> Rule:
    """The transpose rule of a primitive. Raises NotImplementedError where it has none."""
    found = primitive_transposes.get(p)
    if found is None:
        raise NotImplementedError(f"Transpose rule (for reverse-mode differentiation) for '{p.name}' not implemented")
    return found


# -- rules of usual forms ---------------------------------------------------------------------------------------------


def deflinear(primitive: Primitive, transpose_rule: Rule) -> None:
    """A primitive that is linear in all its operands: ``transpose_rule(ct, **params)`` gives their cotangents."""
    primitive_jvps[primitive] = partial(linear_jvp, primitive)
    primitive_transposes[primitive] = partial(linear_transpose, transpose_rule)


def deflinear2(primitive: Primitive, transpose_rule: Rule) -> None:
    """As `deflinear`, with the operands: ``transpose_rule(ct, *operands, **params)``."""
    primitive_jvps[primitive] = partial(linear_jvp, primitive)
    primitive_transposes[primitive] = partial(linear_transpose2, transpose_rule)


def linear_jvp(primitive: Primitive, primals: Sequence[Value], tangents: Sequence[Any], **params: Any) -> Any:
    """The derivative of a linear primitive: itself, of the tangents."""
    out = primitive.bind(*primals, **params)
    if all(type(t) is Zero for t in tangents):
        zero = Zero.from_primal_value
        return (out, [zero(x) for x in out]) if primitive.multiple_results else (out, zero(out))
    return out, primitive.bind(*map(instantiate_zeros, tangents), **params)


def linear_transpose(transpose_rule: Rule, cotangent: Any, *operands: Any, **params: Any) -> Any:
    """A transpose rule of the form of `deflinear`, applied."""
    return Zero if type(cotangent) is Zero else transpose_rule(cotangent, **params)


def linear_transpose2(transpose_rule: Rule, cotangent: Any, *operands: Any, **params: Any) -> Any:
    """A transpose rule of the form of `deflinear2`, applied."""
    return Zero if type(cotangent) is Zero else transpose_rule(cotangent, *operands, **params)


def defjvp(primitive: Primitive, *jvprules: Rule | None) -> None:
    """The derivative of a primitive with one result: ``jvprules[i](t, *primals, **params)``, None where it is zero."""
    primitive_jvps[primitive] = partial(standard_jvp, jvprules, primitive)


def standard_jvp(
    jvprules: Sequence[Rule | None],
    primitive: Primitive,
    primals: Sequence[Value],
    tangents: Sequence[Any],
    **params: Any,
) -> tuple[Value, Any]:
    """The rule that `defjvp` makes, applied."""
    rules = [rule and partial(_without_result, rule) for rule in jvprules]
    return standard_jvp2(rules, primitive, primals, tangents, **params)


def _without_result(rule: Rule, tangent: Any, _: Value, *primals: Value, **params: Any) -> Any:
    return rule(tangent, *primals, **params)


def defjvp2(primitive: Primitive, *jvprules: Rule | None) -> None:
    """As `defjvp`, with the result: ``jvprules[i](t, ans, *primals, **params)``."""
    primitive_jvps[primitive] = partial(standard_jvp2, jvprules, primitive)


def standard_jvp2(
    jvprules: Sequence[Rule | None],
    primitive: Primitive,
    primals: Sequence[Value],
    tangents: Sequence[Any],
    **params: Any,
) -> tuple[Value, Any]:
    """The rule that `defjvp2` makes, applied."""
    out = primitive.bind(*primals, **params)
    found = [
        rule(t, out, *primals, **params)
        for rule, t in zip(jvprules, tangents, strict=True)
        if rule is not None and type(t) is not Zero
    ]
    return out, _sum(found, out)


def _sum(tangents: Sequence[Any], out: Value) -> Any:
    total: Any = Zero.from_primal_value(out)
    for t in tangents:
        total = add_tangents(total, t)
    return total


def defbilinear(primitive: Primitive, lhs_rule: Rule, rhs_rule: Rule) -> None:
    """A primitive that is linear in each of its two operands.

    ``lhs_rule(ct, x, y, **params)`` is the first operand's cotangent, `x` its `UndefinedPrimal`; `rhs_rule` the second's.
    """
    defjvp(
        primitive,
        lambda t, x, y, **params: primitive.bind(t, y, **params),
        lambda t, x, y, **params: primitive.bind(x, t, **params),
    )
    primitive_transposes[primitive] = partial(bilinear_transpose, lhs_rule, rhs_rule)


def bilinear_transpose(lhs_rule: Rule, rhs_rule: Rule, ct: Any, x: Any, y: Any, **params: Any) -> tuple[Any, Any]:
    """The rule that `defbilinear` makes, applied.

    Raises TypeError unless the equation is linear in exactly one operand.
    """
    if is_undefined_primal(x) == is_undefined_primal(y):
        raise TypeError("a bilinear primitive is transposed in one of its operands")
    if is_undefined_primal(x):
        return (Zero(x.aval) if type(ct) is Zero else lhs_rule(ct, x, y, **params)), None
    return None, (Zero(y.aval) if type(ct) is Zero else rhs_rule(ct, x, y, **params))


# -- functions of `linear_util` ---------------------------------------------------------------------------------------


def jvp(fun: WrappedFun, has_aux: bool = False, instantiate: bool | Sequence[bool] = True) -> Any:
    """The forward derivative of a function of flat values: it takes primals and tangents, and gives both of the results.

    With `has_aux` the function gives a pair, and the second value returned here is a function that gives the second part.
    """
    kept: list[Any] = []

    def apply(primals: Sequence[Value], tangents: Sequence[Any]) -> Any:
        given = [instantiate_zeros(t) for t in tangents]
        if not has_aux:
            return differentiation.jvp(lambda *xs: fun.call_wrapped(*xs), tuple(primals), tuple(given))
        out, out_tangents, aux = differentiation.jvp(
            lambda *xs: fun.call_wrapped(*xs), tuple(primals), tuple(given), has_aux=True
        )
        kept.append(aux)
        return out, out_tangents

    wrapped = wrap_init(apply, debug_info=fun.debug_info)
    return (wrapped, lambda: kept[-1]) if has_aux else wrapped


def linearize(fun: Callable[..., Any], *primals: Value, **options: Any) -> Any:
    """`quire.linearize` of a function that may be one of `linear_util`."""
    call = fun.call_wrapped if isinstance(fun, WrappedFun) else fun
    return differentiation.linearize(call, *primals, **options)


# -- traces -----------------------------------------------------------------------------------------------------------


class _Differentiated(type):
    """Answers `isinstance`: quire has one kind of tracer, and a trace knows whether it is one of a derivative."""

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tracer) and x.owner.name.partition(" of ")[0] in _DERIVATIVES and _depends(x)


_DERIVATIVES = frozenset(("grad", "value_and_grad", "jvp", "vjp", "linearize", "jacfwd", "jacrev", "hessian"))


def _depends(x: Tracer) -> bool:
    """Whether a value depends on an argument of its trace that has a derivative."""
    trace = x.owner
    made = {v: eqn for eqn in trace.eqns for v in eqn.outputs}
    found = {v for v in trace.invars if is_inexact(v.aval.dtype)}
    pending, seen = [x.variable], set[Any]()
    while pending:
        v = pending.pop()
        if v in found:
            return True
        if v not in seen and v in made and made[v].primitive is not ew.stop_gradient_p:
            pending.extend(a for a in made[v].inputs if isinstance(a, Var) and is_inexact(a.aval.dtype))
        seen.add(v)
    return False


class JVPTracer(metaclass=_Differentiated):
    """What values within a differentiated function are an instance of if they depend on what it is differentiated by.

    There are no instances of it: quire traces the function and takes the derivative of what it recorded.
    """


class JVPTrace:
    """JAX's trace of a derivative. quire has one kind of trace, so nothing is an instance."""


annotations = None

__all__ = [
    "JVPTrace", "JVPTracer", "UndefinedPrimal", "Zero", "add_jaxvals", "add_jaxvals_p", "add_tangents", "aval_of",
    "bilinear_transpose", "defbilinear", "defjvp", "defjvp2", "deflinear", "deflinear2", "get_primitive_transpose",
    "instantiate_zeros", "is_undefined_primal", "jvp", "linear_jvp", "linear_transpose", "linear_transpose2", "linearize",
    "primitive_jvps", "primitive_transposes", "reducing_transposes", "standard_jvp", "standard_jvp2", "zeros_like_aval",
]  # fmt: skip

__getattr__ = module_getattr("quire.interpreters.ad", globals())
