"""Printing and parsing: ``parse(to_text(j)) == j``, and the messages of wrong text."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quire  # noqa: F401
from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.errors import ParseError
from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from quire.ir.parser import parse, parse_aval
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing
from quire.ir.printer import PrintOptions, to_text
from quire.ir.verifier import verify
from tests.programs import programs


def same(closed: ClosedJaxpr, **options: object) -> str:
    text = to_text(closed, PrintOptions(**options))  # type: ignore[arg-type]
    again = parse(text)
    assert again == closed
    assert to_text(again, PrintOptions(**options)) == text  # type: ignore[arg-type]
    return text


@settings(max_examples=60, deadline=None)
@given(programs(control_flow=True), st.sampled_from((20, 60, 100)))
def test_random_programs_round_trip(program, width):
    verify(program)
    same(program, width=width)
    text = to_text(program, PrintOptions(source=True))
    again = parse(text)
    assert again == program
    assert [e.source for e in again.eqns] == [e.source for e in program.eqns]


def literal_program(value: np.ndarray, weak: bool = False) -> ClosedJaxpr:
    aval = ShapedArray((), value.dtype, weak)
    return ClosedJaxpr(Jaxpr((), (), [Literal(value, aval)], ()))


BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**64 - 1), st.sampled_from(dtypes.FLOATS), st.booleans())
def test_every_float_round_trips_to_the_bit(bits, dtype, weak):
    raw = np.asarray(bits % 2 ** (8 * dtype.itemsize), BITS[dtype.itemsize])
    same(literal_program(raw.view(dtype), weak))


EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 0.1, 1e-45, 3.4e38, 1e300, 5e-324, 65504.0]


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_edge_values_round_trip(dtype):
    if dtypes.is_complex(dtype):
        values = [complex(a, b) for a in EDGES for b in EDGES]
    elif dtypes.is_bool(dtype):
        values = [True, False]
    elif dtypes.is_integer(dtype):
        info = np.iinfo(dtype)
        values = [info.min, info.max, 0, 1]
    else:
        values = EDGES
    with np.errstate(all="ignore"):
        array = np.asarray(values).astype(dtype)
    for x in array:
        same(literal_program(np.asarray(x)))
    # The same values as constants: few (values), many (base64), all equal.
    for constant in (array[:3], np.resize(array, 100), np.full((5, 7), array[0]), array[:0].reshape(0, 2)):
        v = Var(ShapedArray(constant.shape, dtype))
        same(ClosedJaxpr(Jaxpr([v], (), [v], ()), [constant]))


def test_the_notation_is_that_of_make_jaxpr():
    a, b, c, d = (Var(ShapedArray((3,), dtypes.float32)) for _ in range(4))
    eqns = [
        Eqn([a, Literal(2.0, ShapedArray((), dtypes.float32))], [b], ew.mul_p, {}),
        Eqn([a, b], [c], ew.add_p, {}),
        Eqn([a], [d], ew.sin_p, {}),
    ]
    closed = ClosedJaxpr(Jaxpr((), [a], [c], eqns))
    assert str(closed) == (
        "{ lambda ; a:f32[3]. let\n"
        "    b:f32[3] = mul a 2.0:f32[]\n"
        "    c:f32[3] = add a b\n"
        "    _:f32[3] = sin a\n"
        "  in (c,) }"
    )


def test_agrees_with_jax_on_a_program():
    import jax

    import quire.lax as qlax

    if not hasattr(qlax, "sin"):
        pytest.skip("quire.lax has no sin yet")
    theirs = str(jax.make_jaxpr(lambda x, y: jax.lax.mul(jax.lax.sin(x), y))(np.ones(3, "f"), np.ones(3, "f")))
    ours = str(quire.make_jaxpr(lambda x, y: qlax.mul(qlax.sin(x), y))(np.ones(3, "f"), np.ones(3, "f")))
    # JAX separates equations on one line by a semicolon.
    assert ours.replace(";", " ").split() == theirs.replace(";", " ").split()


PARAMS = [
    None, True, False, 0, -7, 2**70, 1.5, -0.0, float("inf"), 1e-300, complex(1, -2), complex("1-infj"),
    "plain", "<lambda>", "two words", "f32", "None", "bool", "it's", 'both "\' kinds', "line\nend", "",
    np.dtype("float32"), np.dtype(ml_dtypes.bfloat16), np.dtype("bool"), dtypes.float0,
    (), (1,), (1, (2, "x"), None), frozenset((3, 1, 2)), np.float32(0.1), np.int8(-3), np.bool_(True),
    np.complex64(1 - 2j), ew.add_p, ShapedArray((2, 3), dtypes.int8), ShapedArray((), dtypes.float32, True),
    np.arange(6).reshape(2, 3).astype("i4"), np.zeros((0, 4), "f4"), np.linspace(0, 1, 50).astype("f4"),
    np.asarray(2.5), indexing.GatherScatterMode.CLIP,
]  # fmt: skip


@pytest.mark.parametrize("value", PARAMS, ids=lambda v: type(v).__name__)
def test_every_kind_of_parameter_round_trips(value):
    # Any primitive whose module knows the classes will do: the notation does not depend on the parameter.
    v = Var(ShapedArray((), dtypes.float32))
    eqn = Eqn((), [v], indexing.gather_p, {"mode": value})
    same(ClosedJaxpr(Jaxpr((), (), [v], [eqn])), width=60)


def test_dimension_numbers_round_trip():
    closed = parse(
        "{ lambda ; a:f32[2,3] b:f32[3,4]. let c:f32[2,4] = dot_general[dimension_numbers=(((1,), (0,)), ((), ())) "
        "precision=None preferred_element_type=float32] a b in (c,) }"
    )
    same(closed)


def test_shared_jaxprs_are_written_once_and_stay_shared():
    text = (
        "let @f = { lambda ; a:f32[]. let\n"
        "      b:f32[] = sin a\n"
        "      c:f32[] = cos b\n"
        "    in (c,) } in\n"
        "{ lambda ; d:f32[]. let\n"
        "    e:f32[] = jit[donated_invars=(False,) inline=False jaxpr=@f name=f] d\n"
        "    g:f32[] = jit[donated_invars=(False,) inline=False jaxpr=@f name=f] e\n"
        "  in (g,) }"
    )
    closed = parse(text)
    first, second = (e.params["jaxpr"] for e in closed.eqns)
    assert first is second
    assert same(closed).replace("f:f32[]", "g:f32[]").count("@f") == 3


def test_functions_are_printed_by_name_and_refused():
    v = Var(ShapedArray((), dtypes.float32))
    eqn = Eqn((), [v], indexing.gather_p, {"mode": test_functions_are_printed_by_name_and_refused})
    text = to_text(ClosedJaxpr(Jaxpr((), (), [v], [eqn])))
    assert "<function test_functions_are_printed_by_name_and_refused>" in text
    with pytest.raises(ParseError, match="printed by its name only and cannot be read back"):
        parse(text)


def test_left_out_constants_are_refused():
    v = Var(ShapedArray((50,), dtypes.float32))
    closed = ClosedJaxpr(Jaxpr([v], (), [v], ()), [np.arange(50, dtype="f4")])
    text = to_text(closed, PrintOptions(max_const=10))
    assert text == "{ lambda a:f32[50]=... ; . let in (a,) }"
    with pytest.raises(ParseError, match="left out when the program was printed"):
        parse(text)


def test_comments_and_white_space_mean_nothing():
    plain = parse("{ lambda ; a:f32[3]. let b:f32[3] = neg a in (b,) }")
    other = parse("// RUN: x\n{lambda;a:f32[3].let # nothing\n b:f32[3]=neg\n\na;in(b,)} // end")
    assert plain == other


WRONG = [
    ("{ lambda ; a:f32[3]. let b:f32[3] = mull a a in (b,) }", "1:37: no primitive is named mull; did you mean mul?"),
    ("{ lambda ; a:f33[3]. let in () }", "1:14: expected a type such as f32[8,3], found 'f33'; did you mean f32?"),
    ("{ lambda ; a:f32[3]. let\n  b:f32[3] = mul a c\nin (b,) }", "2:20: variable c is not defined here"),
    ("{ lambda ; a:f32[3]. let b:f32[] = reduce_sum[axis=(0,)] a in (b,) }",
     "1:47: primitive reduce_sum has no parameter axis; did you mean axes?"),
    ("{ lambda a:f32[3] ; . let in (a,) }", "1:1: a constant of the program has no value"),
    ("{ lambda a:f32[3]=[1.0 2.0] ; . let in (a,) }", "1:19: expected 3 elements, found 2"),
    ("{ lambda ; a:i8[]. let b:i8[] = add a 200:i8[] in (b,) }", "1:39: 200 does not fit dtype int8"),
    ("{ lambda ; a:i8[]. let b:i8[] = add a 1.5:i8[] in (b,) }", "1:39: 1.5 is not a value of dtype int8"),
    ("{ lambda ; a:f32[3] a:f32[3]. let in () }", "1:21: variable a is defined twice"),
    ("{ lambda ; a:f32[3]. let a:f32[3] = neg a in () }", "1:26: variable a is defined twice"),
    ("{ lambda ; a:f32[3] let in () }", "1:21: expected an argument name:type, or '. let' after the arguments, found"),
    ("{ lambda ; a:f32[3]. let in (a,)", "1:33: expected '}' at the end of a jaxpr, found the end of the text"),
    ("{ lambda ; . let in () } }", "1:26: expected the end of the text, found '}'"),
    ("{ lambda ; a:f32[3]. let b:f32[3] = convert_element_type[new_dtype=@g weak_type=False] a in (b,) }",
     "1:69: no jaxpr is named @g"),
    ("{ lambda ; a:f32[3]. let b:f32[3] = jit[name=f] a in (b,) }", "the parameters of jit are wrong: KeyError"),
    ("{ lambda ; a:f32[3]. let b:f32[3] = neg 1.0:f32[3] in (b,) }", "a literal is a scalar"),
    ("{ lambda ; a:f32[3]. let % in (b,) }", "1:26: unexpected character '%'"),
    ("{ lambda ; a:f32[3]. let in:f32[3] = neg a in (b,) }", "expected '(' before the results, found ':'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[m[:40] for _, m in WRONG])
def test_wrong_text_is_refused_with_its_place(text, message):
    with pytest.raises(ParseError) as caught:
        parse(text, "file.jaxpr")
    said = str(caught.value)
    assert message in said
    assert said.startswith("file.jaxpr:")
    # The caret stands under the column that the message names.
    column = int(said.split(":")[2])
    first, second = said.splitlines()[1:3]
    assert second.index("^") - second.index("|") - 2 == column - 1
    assert first.split("| ", 1)[1] in text


@pytest.mark.parametrize("text", ["f32[8,3]", "bool[]", "bf16[2,0]", "i32[]*", "c64[1]"])
def test_types_round_trip(text):
    aval = parse_aval(text)
    assert aval.short() + "*" * aval.weak_type == text


def test_the_grammar_page_holds_programs_that_parse():
    page = (Path(__file__).parents[2] / "docs" / "ir-grammar.md").read_text(encoding="utf-8")
    examples = re.findall(r"```jaxpr\n(.*?)```", page, re.DOTALL)
    assert len(examples) >= 4
    for text in examples:
        closed = parse(text)
        verify(closed)
        same(closed)


def test_types_with_divisions_are_refused_with_the_reason() -> None:
    with pytest.raises(ParseError, match="cannot be read: text does not say what the mesh is. Write the types without"):
        parse_aval("f32[8@x,4]")
