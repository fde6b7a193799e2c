"""Jaxprs are immutable: writing to any part of one raises."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import ClosedJaxpr, Literal
from quire.ir.parser import parse

PROGRAM = "{ lambda c:f32[2]=[1.0 2.0] ; a:f32[2]. let b:f32[2] = mul a c d:f32[2] = add b 1.0:f32[] in (d,) }"


def parts() -> list[Any]:
    closed = parse(PROGRAM)
    eqn = closed.eqns[1]
    return [closed, closed.jaxpr, eqn, eqn.outputs[0], eqn.inputs[1]]


@pytest.mark.parametrize("part", parts(), ids=lambda part: type(part).__name__)
def test_writing_raises(part: Any) -> None:
    names = [n for n in type(part).__slots__ if not n.startswith("__")]
    assert names
    for name in (*names, "something_new"):
        with pytest.raises(AttributeError, match=f"{type(part).__name__}.{name} cannot be set: the IR is immutable"):
            setattr(part, name, None)
    for name in names:
        with pytest.raises(AttributeError, match="cannot be deleted"):
            delattr(part, name)
    assert [hasattr(part, name) for name in names] == [True] * len(names)


def test_a_hash_is_kept_and_equal_programs_have_one() -> None:
    first, second = parse(PROGRAM), parse(PROGRAM)
    assert hash(first) == hash(first) == hash(second)
    assert first == second


def test_a_literal_does_not_take_its_callers_array_away() -> None:
    value = np.ones((), np.float32)
    literal = Literal(value, ShapedArray((), np.dtype(np.float32)))
    assert value.flags.writeable
    assert literal == Literal(1.0, literal.aval)


def test_replace_gives_another_equation() -> None:
    eqn = parse(PROGRAM).eqns[0]
    other = eqn.replace(inputs=eqn.inputs[::-1])
    assert other is not eqn and other.inputs == eqn.inputs[::-1] and other.source is eqn.source


def test_a_closed_jaxpr_may_be_built_of_the_parts_of_another() -> None:
    closed = parse(PROGRAM)
    assert ClosedJaxpr(closed.jaxpr, copy.copy(closed.consts)) == closed
