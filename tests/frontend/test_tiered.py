"""compile(tiered=True): the reference backend answers until the program is compiled."""

import threading

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.compiling import aot
from quire.compiling.interim import InterimVariant


@pytest.fixture
def held(monkeypatch):
    """Compiling waits for the event."""
    event = threading.Event()
    compile_program = aot.compile_program

    def slow(*args, **kwargs):
        assert event.wait(60)
        return compile_program(*args, **kwargs)

    monkeypatch.setattr(aot, "compile_program", slow)
    return event


def test_calls_are_answered_before_and_after_the_program_is_compiled(held):
    @quire.compile(tiered=True, donate_argnums=1)
    def f(x, y):
        return {"z": qnp.sin(x) @ x + y, "x": x}

    x = qnp.asarray(np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32))
    y = qnp.ones((3, 3))
    first = f(x, y)
    assert [type(v) for v in f._known.variants.values()] == [InterimVariant]
    assert y.is_deleted() and not x.is_deleted()
    assert f.cache_info().misses == 1
    held.set()
    assert len(f.variants()) == 1
    for _ in range(3):
        again = f(x, qnp.ones((3, 3)))
        np.testing.assert_allclose(np.asarray(again["z"]), np.asarray(first["z"]), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(np.asarray(again["x"]), np.asarray(x))
    assert f.cache_info().variants[0].uses == 4
    assert f.cache_info().variants[0].compile_seconds > 0


def test_an_error_of_the_compiler_is_raised_by_the_next_call(monkeypatch):
    event = threading.Event()

    def broken(*args, **kwargs):
        assert event.wait(60)
        raise RuntimeError("no program")

    monkeypatch.setattr(aot, "compile_program", broken)
    f = quire.compile(lambda x: x * 2, tiered=True)
    assert float(f(2.0)) == 4.0
    event.set()
    (variant,) = f._known.variants.values()
    variant.wait()
    with pytest.raises(RuntimeError, match="no program"):
        f(2.0)


def test_donated_arguments_are_reported_where_the_user_is():
    f = quire.compile(lambda x: x.sum(), tiered=True, donate_argnums=0)
    with pytest.warns(UserWarning, match="donated") as found:
        f(qnp.ones((3, 3)))
    assert [w.filename for w in found] == [__file__]
    f.variants()
