"""`find_nan` of what the compiled program alone makes: the target's own numbers, in straight code, loops and kernels."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.backends.kernels.elements import operations
from quire.backends.stablehlo.lowering import lowering
from quire.ir.primitives import elementwise as ew
from quire.tools.dumpir.cli import main

RULES: dict[Any, Any] = operations._RULES  # pyright: ignore[reportPrivateUsage]


def test_numbers_that_are_too_small_to_be_normal() -> None:
    """A zero on the target, by which is divided: each equation alone is right, and only the sixth turn makes an infinity."""

    def f(x):
        def body(c, _):
            c = c * 0.5
            return c, 1 / (c * 1e-37) * 1e-30

        return lax.scan(body, x, None, length=6)

    x = np.float32(4.0)
    assert np.isinf(np.asarray(quire.compile(f)(x)[1])).tolist() == [False] * 5 + [True]
    found = quire.find_nan(f)(x)
    assert found is not None and (found.kind, found.target, found.direction) == ("inf", "cpu", "forward")
    assert found.eqn is not None and found.eqn.primitive.name == "div"
    assert [(t.eqn.primitive.name, t.number) for t in found.turns] == [("scan", 5)]
    assert found.source is not None and found.source.line == f.__code__.co_firstlineno + 3
    assert re.match(
        r"forward: the first inf of f on cpu is made by div \(at .*\), in turn 5 of the scan \(at .*\): ", str(found)
    )
    assert str(found).endswith("the result is div(1.0, 0.0) = inf; the reference backend makes none")
    assert quire.find_nan(f, compiled=False)(x) is None
    assert quire.find_nan(f)(np.float32(400.0)) is None


def test_a_lowering_and_its_derivative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lowering.rules, ew.sin_p, lowering.rules[ew.log_p])
    monkeypatch.setitem(RULES, ew.sin_p, RULES[ew.log_p])

    def f(x):
        mask = qnp.where(x > 9, x, -qnp.inf)  # on purpose, and no fault
        return qnp.sum(qnp.exp(qnp.sin(x) + mask))

    x = np.array([-1.0, 0.5], np.float32)
    found = quire.find_nan(f)(x)
    assert found is not None and (found.kind, found.target, found.direction) == ("nan", "cpu", "forward")
    assert found.source is not None and found.source.line == f.__code__.co_firstlineno + 2
    assert "; the reference backend makes none" in str(found)

    def g(x):  # the derivative of cos is -sin
        return qnp.sum(qnp.cos(x))

    found = quire.find_nan(g)(x)
    assert found is not None and (found.direction, found.target) == ("backward", "cpu")
    assert str(found).startswith("backward: the first nan of g on cpu is made by ")


def test_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only kernels are wrong: the fusion is named with its kernel, or a whole loop with its own."""
    monkeypatch.setitem(RULES, ew.tanh_p, RULES[ew.log_p])

    def f(x):
        y = x * 2 + 1
        for _ in range(4):
            y = qnp.tanh(y) * 0.5 + qnp.exp(-y * y) / 3
        return y - 1

    x = np.linspace(-1.5, 2.0, 1 << 15, dtype=np.float32)
    found = quire.find_nan(f)(x)
    assert found is not None and found.kind == "nan" and found.source is not None
    assert found.source.line == f.__code__.co_firstlineno + 3
    assert re.search(
        r" is made by fusion \(elementwise\) \(at .*\), by kernel elementwise_\w+: \d+ of 32768 elements", str(found)
    )

    def looped(x):
        def body(c):
            i, y = c
            y = lax.cond(i > 1, lambda y: qnp.tanh(y) - 1, lambda y: y + 2, y)
            return i + 1, y

        return lax.while_loop(lambda c: c[0] < 5, body, (0, x))[1]

    found = quire.find_nan(looped)(np.float32(-0.5))
    # The whole loop is one kernel, and its body alone is right.
    assert re.search(r" is made by while \(at .*\), by kernel while_\w+: the result is nan", str(found))


def test_turns_of_loops_within_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops that stay loops of the host: their bodies are compiled, and run turn by turn."""
    monkeypatch.setitem(lowering.rules, ew.sin_p, lowering.rules[ew.log_p])
    monkeypatch.setitem(RULES, ew.sin_p, RULES[ew.log_p])

    def f(x):
        def inner(i, y):
            return y - lax.cond(i == 2, lambda y: qnp.sin(qnp.sort(y)) * 0, lambda y: y * 0 + 1, y)

        def outer(c, k):
            return lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, inner(*c)), (0, c))[1], k

        return qnp.sum(lax.scan(outer, x, qnp.arange(3))[0])

    # 9.5 falls by 3 a turn: in turn 2, after two steps, it is 9.5 - 6 - 2 = 1.5; 7.5 is -0.5 then.
    assert quire.find_nan(f, backward=False)(np.float32([9.5, 12])) is None
    found = quire.find_nan(f, backward=False)(np.float32([7.5, 12]))
    assert found is not None and found.kind == "nan" and found.eqn is not None
    assert [(t.eqn.primitive.name, t.number) for t in found.turns] == [("scan", 2), ("while", 2)], str(found)
    assert found.source is not None and found.source.line == f.__code__.co_firstlineno + 2


def test_what_the_program_is_given_is_no_fault() -> None:
    """Infinities of constants and masks that reach a result; programs that are not run twice."""
    x = np.arange(-2.0, 2.0, dtype=np.float32)
    assert quire.find_nan(lambda x: (qnp.where(x > 0, x, -qnp.inf), qnp.max(x, initial=-qnp.inf)))(x) is None
    called: list[int] = []

    def noted(x: Any) -> Any:
        called.append(1)
        return x

    def calls(x):
        return quire.pure_callback(noted, quire.ShapeDtypeStruct(x.shape, x.dtype), x)

    assert quire.find_nan(calls, backward=False)(x) is None and len(called) == 1


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lowering.rules, ew.sin_p, lowering.rules[ew.log_p])
    monkeypatch.setitem(RULES, ew.sin_p, RULES[ew.log_p])
    path = tmp_path / "model.py"
    path.write_text("import quire.numpy as np\ndef f(x):\n    y = np.sin(x)\n    return y + 1\n")
    assert main([f"{path}:f", "--args", "np.float32([-1, 2])", "--find-nan", "--json"]) == 3
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["found"], found["kind"], found["target"], found["reaches"]) == (True, "nan", "cpu", True)
    assert found["line"].endswith("model.py:3") and found["turns"] == []
    assert main([f"{path}:f", "--args", "np.float32([1, 2])", "--find-nan"]) == 0
    assert capsys.readouterr().out == "f makes no NaN and no infinity, neither by the reference backend nor on cpu\n"
    assert main([f"{path}:f", "--args", "np.float32([np.nan, 2])", "--find-nan"]) == 3
    assert "the argument x of f holds a nan already: nan at index (0)" in capsys.readouterr().out
    assert main([f"{path}:f", "--args", "f32[2]", "--find-nan", "--target", "cuda"]) in (0, 3)
    assert "f makes no NaN and no infinity, by the reference backend" in capsys.readouterr().out
