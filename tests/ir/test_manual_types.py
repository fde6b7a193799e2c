"""Types that say of manual axes that a value varies, is unreduced or is reduced: printed, read again, and what they give."""

from __future__ import annotations

import pytest

from quire.ir import dtypes
from quire.ir.avals import ManualAxisType, Reduced, ShapedArray, Unreduced
from quire.ir.errors import ParseError
from quire.ir.parser import parse


@pytest.mark.parametrize(
    ("manual", "text"),
    [
        ({"x"}, "f32[3]{V:x}"), ({"x", "y"}, "f32[3]{V:x,y}"), ({Unreduced("x")}, "f32[3]{U:x}"), ({Reduced("U")}, "f32[3]{R:U}"),
        ({"x", Unreduced("y"), Unreduced("z"), Reduced("w")}, "f32[3]{V:x, U:y,z, R:w}"),
    ],
)  # fmt: skip
def test_printed_and_read(manual: set[object], text: str) -> None:
    aval = ShapedArray((3,), dtypes.float32, False, frozenset(manual))
    assert aval.short() == text
    (v,) = parse(f"{{ lambda ; a:{text}. let in (a,) }}").jaxpr.invars
    assert v.aval is aval


def test_what_a_type_says() -> None:
    aval = ShapedArray((3,), dtypes.float32, False, frozenset({"x", Unreduced("y"), Reduced("z")}))
    assert aval.vma == {"x"}
    assert aval.mat == ManualAxisType(frozenset("x"), frozenset("y"), frozenset("z"))
    assert aval.cotangent().short() == "f32[3]{V:x, U:z, R:y}"
    assert aval.cotangent().cotangent() is aval
    assert aval.update(shape=(4,)).short() == "f32[4]{V:x, U:y, R:z}"


def test_an_unknown_mark() -> None:
    with pytest.raises(
        ParseError, match=r"expected V, U or R after '\{' of a type, as in \{V:x\}: along x it varies, found Q"
    ):
        parse("{ lambda ; a:f32[3]{Q:x}. let in (a,) }")
