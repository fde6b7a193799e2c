"""The tracing core: recording, capture, values on demand, sources."""

from __future__ import annotations

import numpy as np
import pytest

import quire
from quire.ir import errors
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.jaxpr import Literal
from quire.ir.primitives import elementwise as ew
from quire.ir.source import Source
from quire.ir.tracing import Tracer, close_captured, eval_jaxpr, trace_flat

F3 = ShapedArray((3,), np.dtype(np.float32))


def test_avals_are_interned():
    assert ShapedArray((3,), np.dtype(np.float32)) is F3
    assert ShapedArray((np.int64(3),), np.dtype(np.float32)) == F3
    assert aval_of(2.0).weak_type and not aval_of(np.float32(2)).weak_type
    assert aval_of(True).weak_type is False
    import pickle

    assert pickle.loads(pickle.dumps(F3)) is F3


def test_equations_carry_the_users_line():
    def f(x):
        y = ew.sin(x)
        return [ew.mul(y, 2.0)]

    jaxpr, _, _ = trace_flat(f, [F3])
    line = f.__code__.co_firstlineno
    assert [e.source for e in jaxpr.eqns] == [
        Source(__file__, line + 1, "test_equations_carry_the_users_line.<locals>.f"),
        Source(__file__, line + 2, "test_equations_carry_the_users_line.<locals>.f"),
    ]


def test_scalars_are_literals_of_the_operands_dtype():
    jaxpr, _, _ = trace_flat(lambda x: [ew.mul(x, 2)], [F3])
    literal = jaxpr.eqns[0].inputs[1]
    assert isinstance(literal, Literal) and literal.aval.dtype == np.float32


def test_captured_values_become_inputs_in_order_of_use():
    a, b = np.ones(3, np.float32), np.zeros(3, np.float32)
    jaxpr, captured, _ = trace_flat(lambda x: [ew.add(ew.add(x, b), ew.add(a, b))], [F3])
    assert [c is d for c, d in zip(captured, (b, a))] == [True, True]
    assert len(jaxpr.invars) == 3 and not jaxpr.constvars
    closed = close_captured(jaxpr, captured)
    assert len(closed.jaxpr.constvars) == 2 and len(closed.jaxpr.invars) == 1


def test_values_of_outer_traces_are_captured():
    seen = []

    def outer(x):
        def inner(y):
            return [ew.mul(y, x)]

        jaxpr, captured, _ = trace_flat(inner, [F3])
        seen.append(captured)
        return eval_jaxpr(jaxpr, (), [*captured, x])

    jaxpr, captured, _ = trace_flat(outer, [F3])
    assert isinstance(seen[0][0], Tracer) and captured == []
    assert [e.primitive.name for e in jaxpr.eqns] == ["mul"]
    assert jaxpr.eqns[0].inputs == (jaxpr.invars[0], jaxpr.invars[0])


def test_a_concrete_trace_evaluates_only_what_is_asked_for(monkeypatch):
    from quire.ir import tracing

    evaluated = []
    original = tracing.hooks.evaluate

    def counting(p, args, params):
        evaluated.append(p.name)
        return original(p, args, params)

    monkeypatch.setattr(tracing.hooks, "evaluate", counting)

    def f(x):
        y = ew.sin(x)
        ew.cos(x)  # never needed
        if float(y) > 0:
            return [ew.mul(y, 2.0)]
        return [y]

    jaxpr, _, _ = trace_flat(f, [aval_of(1.0)], staging=False, values=[1.0])
    assert evaluated == ["sin"]
    assert [e.primitive.name for e in jaxpr.eqns] == ["sin", "cos", "mul"]


def test_a_staging_trace_knows_no_values():
    with pytest.raises(errors.ConcretizationTypeError, match=r"f32\[\] was used where Python needs its value: float"):
        trace_flat(lambda x: [float(x)], [ShapedArray((), np.dtype(np.float32))], name="a test")


def test_everything_is_recorded_under_compile():
    jaxpr = quire.make_jaxpr(lambda x: x + quire.numpy.sin(quire.numpy.ones(3)))(1.0)
    assert "sin" in [e.primitive.name for e in jaxpr.eqns]


def test_a_type_error_names_the_line_once():
    def f(x):
        return [ew.add(x, np.ones(4, np.float32))]

    with pytest.raises(TypeError, match=r"add: the operands must have one shape.*f32\[3\], f32\[4\]") as caught:
        trace_flat(f, [F3])
    assert str(caught.value).count(" (at ") == 1
    assert f"{__file__}:{f.__code__.co_firstlineno + 1}" in str(caught.value)


def test_jaxprs_are_equal_up_to_names():
    def make(c):
        return quire.make_jaxpr(lambda x: quire.numpy.sin(x) * c)(quire.numpy.ones(3))

    assert make(2.0) == make(2.0)
    assert hash(make(2.0)) == hash(make(2.0))
    assert make(2.0) != make(3.0)
