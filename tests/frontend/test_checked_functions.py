"""``compile(checks=...)`` and `find_nan`: functions of a script, because pytest rewrites the assertions of its own modules."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.errors import CheckError

SCRIPT = """\
import quire, quire.numpy as qnp
from quire import lax

def body(k, c):
    assert c.sum() < 100
    return c * 2

def checked(x, i):
    assert (x > 0).all() and i < 10, "positive"
    assert not (i == 7)
    y = lax.fori_loop(0, 3, body, x)
    return qnp.log(y)[i], x.at[i].add(1.0)

def large(v):
    assert qnp.max(v) < 50
    return v

def either(x):
    assert x > 1 or x < -1
    return x * x

def positive(x):
    assert x > 1
    return x * x

def told(p, k):
    limit = 3
    assert (p["w"] < limit).all(), (
        f"w is {p['w'].max():.1f} at {int(p['w'].argmax())} in turn {k}, {[limit + j for j in range(2)]}"
    )
    assert k < 5, "turn {}".format(missing)
    return p["w"] * k

def wide(x):
    assert x[0] > 0, f"first {x[0]}"
    return x

def mapped(x):
    return quire.vmap(positive)(x)

def slope(x):
    return quire.grad(positive)(x)
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    path = tmp_path_factory.mktemp("checked") / "script.py"
    path.write_text(SCRIPT)
    spec = importlib.util.spec_from_file_location("checked_script", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


X = np.arange(1, 5, dtype=np.float32)


def message(f: Any, *args: Any, kind: type[BaseException] = AssertionError) -> str:
    with pytest.raises(kind) as found:
        f(*args)
    return str(found.value).replace(str(Path(found.value.args[0].split("(at ")[-1].split(":")[0]).parent) + "/", "")


def test_assertions_and_indices(script: ModuleType) -> None:
    f = quire.compile(script.checked, checks=True)
    value, updated = f(X, 2)
    np.testing.assert_allclose(value, np.log(24), rtol=1e-6)
    np.testing.assert_array_equal(updated, [1, 2, 4, 4])
    assert message(f, X - 1, 2) == (
        'assert (x > 0).all() and i < 10, "positive" (at script.py:9, in checked): x = [0., 1., 2., 3.]; i = 2'
    )
    assert message(f, X, 12).endswith("(at script.py:9, in checked): x = [1., 2., 3., 4.]; i = 12")
    assert message(f, X, 7) == "assert not (i == 7) (at script.py:10, in checked): i = 7"
    assert message(f, X * 10, 2) == "assert c.sum() < 100 (at script.py:5, in body): c = [10., 20., 30., 40.]"
    assert "index 5 is out of bounds for axis 0 with size 4 (at script.py:12" in message(f, X, 5, kind=CheckError)
    assert message(quire.compile(script.large, checks="assert"), np.arange(100.0, dtype=np.float32)) == (
        "assert qnp.max(v) < 50 (at script.py:15, in large): v = f32[100] from 0.0 to 99.0"
    )


def test_messages_are_evaluated_where_they_are_needed(script: ModuleType) -> None:
    f = quire.compile(script.told, checks=True)
    assert np.asarray(f({"w": X / 2}, 1)).shape == (4,)
    said = message(f, {"w": X}, 2)
    assert said.startswith(
        "w is 4.0 at 3 in turn 2, [3, 4]: assert (p['w'] < limit).all() (at script.py:28, in told)"
    ), said
    # What the message raises is told beside the assertion.
    said = message(f, {"w": X / 2}, 7)
    assert said.startswith(
        "(its message 'turn {}'.format(missing) raises NameError: name 'missing' is not defined): assert k < 5 (at "
    )
    assert said.endswith("k = 7")
    small, large = quire.compile(script.wide, checks="assert"), np.zeros(1 << 13, np.float32)
    assert message(small, X - 1).startswith("first 0.0: assert x[0] > 0 (at script.py:35, in wide): x = ")
    assert message(small, large).startswith(
        'assert x[0] > 0, f"first {x[0]}" (at script.py:35'
    )  # not for so many elements
    mapped = quire.compile(quire.vmap(script.wide), checks="assert")
    assert "at mapped index 1: first -1.0: assert x[0] > 0" in message(
        mapped, np.array([[1.0, 2], [-1, 3]], np.float32)
    )


def test_within_transformations_and_where_nothing_is_checked(script: ModuleType) -> None:
    assert float(quire.compile(script.slope, checks=True)(3.0)) == 6.0
    assert "assert x > 1 (at script.py:23" in message(quire.compile(script.slope, checks=True), 0.5)
    assert "at mapped index 1: assert x > 1" in message(quire.compile(script.mapped, checks=True), np.array([3.0, 0.5]))
    for f in (quire.compile(script.positive), quire.compile(script.either, checks=True)):
        with pytest.raises(quire.errors.TracerBoolConversionError):
            f(2.0)
    inner = quire.compile(script.positive)
    assert (
        float(quire.compile(lambda x: inner(x), checks=True)(2.0)) == 4.0
    )  # what was traced with checks is no other's
    with pytest.raises(quire.errors.TracerBoolConversionError):
        inner(2.0)
    with pytest.raises(
        ValueError, match="no check is named 'bla'; expected True, 'all' or some of assert, index, nan, div"
    ):
        quire.compile(script.positive, checks="bla")
    assert "nan generated by primitive: log" in message(quire.compile(qnp.log, checks="nan"), -1.0, kind=CheckError)
    assert float(quire.compile(lambda x: x, checks=False)(1.0)) == 1.0


def test_find_nan() -> None:
    def f(x):
        def outer(c, k):
            return c - 0.5, lax.fori_loop(0, 3, lambda j, y: y - qnp.log(c + 1.5 - j), c)

        return qnp.sum(lax.scan(outer, x, qnp.arange(4))[1])

    found = quire.find_nan(f)(np.float32(2.0))
    assert found is not None and (found.kind, found.direction, found.reaches) == ("inf", "forward", True)
    # 2.0, 1.5, 1.0, 0.5: in turn 3 the inner turn 2 takes the logarithm of 0.
    assert [(t.eqn.primitive.name, t.number) for t in found.turns] == [("scan", 3), ("scan", 2)]
    line = f.__code__.co_firstlineno + 2
    assert found.eqn is not None and found.eqn.primitive.name == "log"
    assert found.source is not None and found.source.line == line
    assert str(found).startswith("forward: the first inf of f is made by log (at ")
    assert str(found).endswith("the result is log(0.0) = -inf")
    assert quire.find_nan(f)(np.float32(20.0)) is None

    backward = quire.find_nan(lambda x: qnp.sum(qnp.sqrt(x)))(np.array([4.0, 0.0], np.float32))
    assert backward is not None and (backward.direction, backward.kind) == ("backward", "inf")
    assert "the first at index (1) is div(0.5, 0.0) = inf" in str(backward)
    assert quire.find_nan(lambda x: qnp.sum(qnp.sqrt(x)), backward=False)(np.zeros(2, np.float32)) is None

    masked = quire.find_nan(quire.compile(lambda x: qnp.where(x > 0, qnp.log(x), 0)))(np.array([-1.0, 2.0], np.float32))
    assert masked is not None and not masked.reaches and str(masked).endswith("(no result holds one: it is masked)")
    given = quire.find_nan(lambda p: qnp.sum(p["w"]))({"w": np.array([1, np.nan], np.float32)})
    assert str(given) == "the argument p['w'] of <lambda> holds a nan already: nan at index (1)"
    assert quire.find_nan(lambda x: qnp.exp(x), infinities=False)(np.float32(1000)) is None
    with pytest.raises(TypeError, match="find_nan: f must be a function"):
        quire.find_nan(3)
