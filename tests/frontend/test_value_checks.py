"""config.debug_nans and debug_infs: the error names the equation and the line that made the value."""

import numpy as np
import pytest

import quire as qr
import quire.numpy as qnp
from quire import lax

F = np.float32
HERE = "test_value_checks.py:"


def masked(x):
    y = qnp.where(x > 0, qnp.log(x), 0.0)  # its NaN does not reach the result
    z = y - y
    return (z / z).sum()  # this one does


def loop(x):
    def body(c, row):
        c = c - 1.0
        return c, qnp.sqrt(c) * row

    return lax.scan(body, x, qnp.ones(4))[1]


def line_of(f, text):
    import inspect

    lines, first = inspect.getsourcelines(f)
    return first + next(i for i, line in enumerate(lines) if text in line)


def message(f, *args, **options):
    with qr.config.override(**(options or {"debug_nans": True})), pytest.raises(FloatingPointError) as error:
        f(*args)
    return str(error.value)


@pytest.mark.parametrize("wrap", [lambda f: f, qr.compile], ids=["eager", "compiled"])
def test_the_equation_and_the_line(wrap):
    line = line_of(masked, "z / z")
    text = message(wrap(masked), np.array([-1, 2, 3], F))
    assert text.startswith("invalid value (nan) encountered in "), text
    if wrap is not qr.compile:  # eagerly the first NaN stops
        assert "in log (at" in text and "log(-1.0) = nan" in text
        text = message(masked, np.array([1, 2, 3], F))
    assert f"in div (at {__file__}:{line}, in masked)" in text
    assert "3 of 3 elements, the first at index (0) is div(0.0, 0.0) = nan" in text
    line = line_of(loop, "qnp.sqrt")
    text = message(wrap(loop), F(2.5))
    assert f"in sqrt (at {__file__}:{line}, in loop.<locals>.body)" in text and "sqrt(-0.5) = nan" in text


def test_nested_and_differentiated_functions():
    inner = qr.compile(lambda x: qnp.log(x))

    def f(x):
        return [
            inner(x), lax.cond(x > 0, lambda x: x, lambda x: qnp.arccosh(x), x), qr.grad(lambda y: qnp.sqrt(y * 0.0))(x),
        ]  # fmt: skip

    compiled = qr.compile(lambda x, i: f(x)[i], static_argnums=1)
    assert "in log (at" in message(compiled, F(-2), 0)
    assert "in acosh (at" in message(compiled, F(-2), 1)
    assert "mul(" in message(compiled, F(2), 2)
    assert np.isnan(compiled(F(-2), 0))  # not where the option is off
    ahead = compiled.lower(F(-2), 0).compile()
    assert "in log (at" in message(ahead, F(-2))
    assert np.isnan(ahead(F(-2)))


def test_values_that_come_from_outside():
    text = message(qr.compile(lambda x, scale: x * scale["a"]), F(1), {"a": F("nan")})
    assert text.endswith(
        "returned by test_values_that_come_from_outside.<locals>.<lambda>: its argument scale['a'] holds it already"
    )
    kept = []
    f = qr.compile(lambda x: qr.io_callback(lambda y: kept.append(y) or np.sqrt(y), qr.ShapeDtypeStruct((), F), x))
    with np.errstate(all="ignore"):
        assert "it calls io_callback, so it was not run again" in message(f, F(-1))
    assert len(kept) == 1


def test_donated_arguments_and_prints(capsys):
    def f(x):
        qr.debug.print("seen {}", x[0])
        return x / (x - x)

    text = message(qr.compile(f, donate_argnums=0), qnp.zeros(2))
    assert "div(0.0, 0.0)" in text
    assert capsys.readouterr().out == "seen 0.0\n"  # once: the second run prints nothing


def test_infinities():
    text = message(qr.compile(lambda x: qnp.log(x) * 2), F(0), debug_infs=True)
    assert "invalid value (inf) encountered in log" in text and "log(0.0) = -inf" in text
    assert "invalid value (inf) encountered in exp" in message(qnp.exp, F(1000), debug_infs=True)
    with qr.debug_nans(True):
        assert np.isinf(qnp.exp(F(1000)))
