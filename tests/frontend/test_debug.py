"""quire.debug beside print and callback: log, breakpoint."""

import io
import logging

import numpy as np
import pytest

import quire as qr
import quire.numpy as qnp

F = np.float32


def test_log(caplog):
    f = qr.compile(lambda x: qr.debug.log("x={x} {}", 3, x=x) or x)
    with caplog.at_level(logging.INFO, "quire.debug"):
        f(F(2))
    assert caplog.messages == ["x=2.0 3"]
    with pytest.raises(ValueError, match="debug.log: the format '{y}' needs an argument"):
        qr.debug.log("{y}")
    for f in (qr.debug.print, qr.debug.log):
        with pytest.raises(NotImplementedError, match="partitioned=True is not possible"):
            f("{}", 1, partitioned=True)


@pytest.mark.parametrize("wrap", [lambda f: f, qr.compile], ids=["eager", "compiled"])
def test_breakpoint(wrap):
    commands = "p y * 2\nargs\nbt\nup\ndown\nlist\npp params\nmissing\ncont\n"
    answers = io.StringIO()

    def inner(x, params):
        y = qnp.sin(x) + params["a"]
        qr.debug.breakpoint(stdin=io.StringIO(commands), stdout=answers, num_frames=2)
        return y

    def outer(x, params):
        return inner(x, params) * 1

    wrap(outer)(F(0), {"a": qnp.ones(2)})
    text = answers.getvalue()
    assert text.startswith(f"> {__file__}:")
    assert "array([2., 2.], dtype=float32)" in text
    assert "y: f32[2]" in text and "params: dict" in text
    assert "in test_breakpoint.<locals>.outer" in text
    assert "y = qnp.sin(x)" in text and "->" in text
    assert "*** NameError: name 'missing' is not defined" in text


def test_breakpoint_ends_and_refuses():
    f = qr.compile(lambda x: qr.debug.breakpoint(stdin=io.StringIO("q\n"), stdout=io.StringIO()) or x)
    with pytest.raises(KeyboardInterrupt, match="quit at quire.debug.breakpoint"):
        f(F(1))
    with pytest.raises(ValueError, match="backend must be None or \"cli\", got 'web'"):
        qr.debug.breakpoint(backend="web")
    with pytest.raises(TypeError, match="unknown argument 'std'; the console takes stdin and stdout"):
        qr.debug.breakpoint(std=3)
