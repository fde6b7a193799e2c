"""Lowering: locations, copies of arguments exactly where they are needed, errors in the user's terms."""

from __future__ import annotations

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.backends.stablehlo import lower_module
from quire.backends.targets import get_target
from quire.ir import errors
from quire.ir.primitive import PRIMITIVES

CPU = get_target("cpu")


def lowered(f, *args, donated=()):
    return lower_module(quire.make_jaxpr(f)(*args), CPU, name="f", donated=donated)


def copies(module):
    return module.text().count("flow.tensor.transfer")


def test_an_argument_that_is_returned_stays_outside_the_module():
    module = lowered(lambda x, y: (y, x + 1, y, x * 2), qnp.ones(3), qnp.ones(3))
    assert module.results == (("argument", 1), ("result", 0), ("argument", 1), ("result", 1))


def test_operations_carry_the_users_location():
    def f(x):
        return qnp.sin(x)

    text = lowered(f, qnp.ones(3)).text(locations=True)
    assert f'{__file__}":{f.__code__.co_firstlineno + 1}' in text


def test_two_lowerings_are_the_same_text():
    def f(x):
        return {"b": qnp.sin(x) @ x.T, "a": x.sum()}

    assert lowered(f, qnp.ones((3, 3))).text() == lowered(f, qnp.ones((3, 3))).text()


def test_a_dtype_that_the_target_lacks_is_an_error_at_the_line():
    import dataclasses

    target = dataclasses.replace(CPU, unsupported={"float64": "use float32"})
    with quire.config.override(enable_x64=True):
        jaxpr = quire.make_jaxpr(lambda x: x * 2)(np.ones(3))
    with pytest.raises(
        errors.UnsupportedError, match=r"mul: target cpu cannot do dtype float64 \(at .*test_lowering.py:\d+"
    ):
        lower_module(jaxpr, target)


def test_a_primitive_without_a_rule_is_an_error_at_the_line():
    from quire.ir.avals import ShapedArray
    from quire.ir.primitive import primitive

    try:

        @primitive("test_without_rules")
        def p(x: ShapedArray) -> ShapedArray:
            """A primitive that no table knows."""
            return x

        with pytest.raises(
            errors.UnsupportedError, match=r"test_without_rules cannot be compiled \(at .*test_lowering"
        ):
            quire.compile(lambda x: p.bind(x))(1.0)
    finally:
        PRIMITIVES.pop("test_without_rules", None)


def test_a_compile_that_exceeds_its_time_is_an_error_and_the_next_one_works(monkeypatch):
    monkeypatch.setenv("QUIRE_COMPILE_TIMEOUT", "0.001")
    with pytest.raises(errors.CompileError, match="did not finish within 0.001 s"):
        quire.compile(lambda x: qnp.sin(x) * 1.2345)(1.0)
    monkeypatch.delenv("QUIRE_COMPILE_TIMEOUT")
    assert float(quire.compile(lambda x: qnp.sin(x) * 1.2345)(0.0)) == 0.0


def test_formulas_that_occur_again_in_turns_stay_apart():
    import scipy.special

    from quire import lax

    names = ("lgamma", "digamma")
    x, y = np.array([0.5, 3.25], np.float32), np.array([1.75, 8.0], np.float32)
    # Both formulas are known before either is used again.
    found = quire.compile(lambda x, y: [getattr(lax, name)(v) for v in (x, y) for name in names])(x, y)
    functions = (scipy.special.gammaln, scipy.special.digamma)
    for value, expected in zip(found, [f(v.astype(np.float64)) for v in (x, y) for f in functions]):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


def test_a_formula_that_occurs_often_is_a_function():
    """The first use is in place, the others are calls; what lies between does not make it longer."""

    def f(x, n):
        for _ in range(n):
            x = qnp.sin(x) @ x
        return x

    x = np.ones((5, 5), np.float32)
    texts = [quire.jit(f, static_argnums=1).lower(x, n).as_text() for n in (1, 3, 9)]
    assert [t.count("func.func private") for t in texts] == [0, 1, 1]
    assert [t.count("call @formula_0") for t in texts] == [0, 2, 8]
    assert len(texts[2]) < 1.3 * len(texts[1])
    np.testing.assert_allclose(quire.jit(f, static_argnums=1)(x, 3), f(x, 3), rtol=1e-5)
