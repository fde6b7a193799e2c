"""Using a traced value as a concrete one: the named error, the user's line, and what to write instead."""

from __future__ import annotations

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.ir import errors

HERE = r"test_tracer_errors\.py:\d+"


def compiled(f):
    return quire.compile(f)(qnp.arange(3.0))


@pytest.mark.parametrize(
    ("use", "error", "advice"),
    [
        (lambda x: 1 if x.sum() > 0 else 2, errors.TracerBoolConversionError, "lax.cond or quire.numpy.where"),
        (lambda x: float(x.sum()), errors.ConcretizationTypeError, "static_argnums"),
        (lambda x: int(x.sum()), errors.ConcretizationTypeError, "static_argnums"),
        (lambda x: [1, 2, 3][x.sum().astype(int)], errors.TracerIntegerConversionError, "index an array instead"),
        (lambda x: list(range(x.sum().astype(int))), errors.TracerIntegerConversionError, "fori_loop"),
        (lambda x: np.sin(x), errors.TracerArrayConversionError, "quire.numpy"),
        (lambda x: x.sum().item(), errors.ConcretizationTypeError, "item"),
        (lambda x: x.tobytes(), errors.ConcretizationTypeError, "tobytes()"),
    ],
)
def test_concrete_uses(use, error, advice):
    with pytest.raises(error, match=HERE) as caught:
        compiled(use)
    assert advice in str(caught.value)
    assert "compile of" in str(caught.value)


def test_the_message_says_which_argument():
    @quire.compile
    def f(rate, steps):
        return rate if steps else -rate

    with pytest.raises(errors.TracerBoolConversionError, match="It is steps of compile of .*f"):
        f(1.0, 3)


def test_leaked_tracers():
    kept = []

    @quire.compile
    def f(x):
        kept.append(x * 2)
        return x

    f(1.0)
    with pytest.raises(errors.UnexpectedTracerError, match=r"result of mul \(at .*test_tracer_errors\.py") as caught:
        kept[0] + 1
    assert "return it from the function" in str(caught.value)


def test_leaks_are_found_on_request():
    kept = []
    with quire.config.override(check_tracer_leaks=True):
        with pytest.raises(errors.UnexpectedTracerError, match="leaked"):
            quire.compile(lambda x: kept.append(x) or x)(1.0)


def test_tracers_are_not_hashable():
    with pytest.raises(TypeError, match="cannot be hashed"):
        compiled(lambda x: {x: 1})


def test_shape_errors_name_the_line():
    with pytest.raises((TypeError, ValueError), match=HERE):
        compiled(lambda x: x + qnp.ones(4))


def test_the_errors_are_documented():
    for error in (errors.TracerBoolConversionError, errors.TracerArrayConversionError, errors.UnexpectedTracerError):
        assert "Wrong" in error.__doc__ and "Right" in error.__doc__
