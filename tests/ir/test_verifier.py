"""The verifier accepts what tracing makes and names what breaks a rule."""

# ruff: noqa: E501  (programs and messages on one line)

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import quire  # noqa: F401
from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.errors import VerificationError
from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from quire.ir.parser import parse
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.source import Source
from quire.ir.verifier import checked, verify
from tests.programs import programs

F3 = ShapedArray((3,), dtypes.float32)
HERE = Source("model.py", 7, "layer")


@settings(max_examples=40, deadline=None)
@given(programs(control_flow=True))
def test_traced_programs_are_accepted(program):
    verify(program)


def fails(closed: ClosedJaxpr, *parts: str) -> None:
    with pytest.raises(VerificationError) as caught:
        verify(closed)
    for part in parts:
        assert part in str(caught.value)


TEXTS = [
    ("{ lambda ; a:f32[3]. let b:f32[2] = mul a 2.0:f32[]  # model.py:7 (layer)\n in (b,) }",
     "result 0 of mul has type f32[3], the equation says f32[2] (at model.py:7, in layer)\n  b:f32[2] = mul a 2.0:f32[]"),
    ("{ lambda ; a:f32[3]. let b:f32[] = reduce_sum[axes=0] a in (b,) }",
     "parameter axes of reduce_sum is 0, expected tuple[int, ...]"),
    ("{ lambda ; a:f32[3]. let b:f32[] = reduce_sum a in (b,) }", "parameters of reduce_sum: it lacks axes"),
    ("{ lambda ; a:f32[3]. let b:f32[] = reduce_sum[axes=(1,)] a in (b,) }", "the operands do not fit: reduce_sum: axes"),
    ("{ lambda ; a:f32[3]. let b:f32[3] c:f32[3] = neg a in (b,) }", "neg has 1 result(s), the equation defines 2"),
    ("{ lambda ; a:f32[3]. let b:f32[3] = convert_element_type[new_dtype=float32 weak_type=1] a in (b,) }",
     "parameter weak_type of convert_element_type is 1, expected bool"),
    ("{ lambda ; a:f32[3]. let b:f32[3] = convert_element_type[new_dtype=f weak_type=False] a in (b,) }",
     "parameter new_dtype of convert_element_type is 'f', expected DType"),
    ("{ lambda ; a:f32[]. let b:f32[] = jit[donated_invars=(False,) inline=False jaxpr={ lambda c:f32[]=[1.0] ; d:f32[]."
     " let e:f32[] = add c d in (e,) } name=f] a in (b,) }", "a nested jaxpr holds 1 constant(s)"),
    ("{ lambda ; a:f32[]. let b:f32[] = jit[donated_invars=(False,) inline=False jaxpr={ lambda ; d:f32[]."
     " let e:f16[] = neg d in (e,) } name=f] a # m.py:1 (g)\n in (b,) }",
     "result 0 of neg has type f32[], the equation says f16[]\n  d:f16[] = neg c\nin the nested jaxpr of jit (at m.py:1, in g)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), TEXTS, ids=[m[:30] for _, m in TEXTS])
def test_broken_rules_are_named(text, message):
    fails(parse(text), message)


def test_use_before_definition_names_the_users_line():
    a, b, c = Var(F3), Var(F3), Var(F3)
    eqns = [Eqn([b], [c], ew.neg_p, {}, source=HERE), Eqn([a], [b], ew.neg_p, {})]
    fails(ClosedJaxpr(Jaxpr((), [a], [c], eqns)), "is not defined before its use (at model.py:7, in layer)")


def test_double_definition():
    a, b = Var(F3), Var(F3)
    eqns = [Eqn([a], [b], ew.neg_p, {}), Eqn([a], [b], ew.neg_p, {}, source=HERE)]
    fails(ClosedJaxpr(Jaxpr((), [a], [b], eqns)), "variable b is defined twice (at model.py:7, in layer)")


def test_undefined_result():
    a, b = Var(F3), Var(F3)
    fails(ClosedJaxpr(Jaxpr((), [a], [b], ())), "result 0 of the jaxpr b:f32[3] is not defined")


def test_a_variable_of_an_outer_jaxpr_is_not_visible_inside():
    from quire.ir.primitives import calls

    a, b, c = Var(F3), Var(F3), Var(F3)
    inner = ClosedJaxpr(Jaxpr((), [b], [c], [Eqn([a, b], [c], ew.add_p, {})]))
    params = {"name": "f", "jaxpr": inner, "inline": False, "donated_invars": (False,)}
    out = Var(F3)
    fails(ClosedJaxpr(Jaxpr((), [a], [out], [Eqn([a], [out], calls.jit_p, params)])), "operand a:f32[3] is not defined")


def test_effects_are_those_of_the_primitive():
    a, b = Var(F3), Var(F3)
    eqn = Eqn([a], [b], ew.neg_p, {}, frozenset(("io",)))
    fails(ClosedJaxpr(Jaxpr((), [a], [b], [eqn])), "neg has effects [], the equation says ['io']")


def test_constants_have_their_type():
    a = Var(F3)
    fails(
        ClosedJaxpr(Jaxpr([a], (), [a], ()), [np.zeros(2, "f4")]),
        "constant a has type f32[3], its value has shape (2,)",
    )


def test_surplus_parameters_suggest_the_right_one():
    a, b = Var(F3), Var(ShapedArray((), dtypes.float32))
    eqn = Eqn([a], [b], rd.reduce_sum_p, {"axis": (0,)})
    fails(ClosedJaxpr(Jaxpr((), [a], [b], [eqn])), "lacks axes; has no axis (did you mean axes?)")


def test_checked_says_after_what():
    a = Var(F3)
    broken = ClosedJaxpr(Jaxpr((), [a], [a], [Eqn([a], [Var(F3.update(shape=(2,)))], ew.neg_p, {})]))
    with pytest.raises(VerificationError, match="^after pass simplify: result 0 of neg"):
        checked(broken, "pass simplify")
    fine = ClosedJaxpr(Jaxpr((), [a], [a, Literal(1.0, ShapedArray((), dtypes.float32))], ()))
    assert checked(fine, "x") is fine
