"""config.check: compiled programs are compared with the reference backend at their first call; what rounding explains."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.backends.stablehlo.lowering import lowering
from quire.errors import MiscompiledError
from quire.ir.primitives.elementwise import cos_p, sin_p
from quire.passes.compare import Difference, Equality, first_difference, rounding_of
from quire.runtime.compile_cache import CompileCache
from tests.helpers import trace

HERE = "test_result_checks.py"


@pytest.fixture(autouse=True)
def _check() -> Iterator[None]:
    with quire.config.override(check=True):
        yield


@pytest.fixture
def sine_is_cosine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the lowering; its programs are not kept."""
    monkeypatch.setitem(lowering.rules, sin_p, lowering.rules[cos_p])
    monkeypatch.setattr("quire.compiling.compiler.compile_cache", lambda: CompileCache(enabled=False))


def _model(x: Any) -> dict[str, Any]:
    y = qnp.matmul(x, x)
    return {"first": y, "second": qnp.sin(y) + 1}


LINE = _model.__code__.co_firstlineno


@pytest.mark.usefixtures("sine_is_cosine")
def test_a_planted_fault_is_found_and_nothing_is_returned() -> None:
    f = quire.jit(_model)
    x = np.ones((6, 6), np.float32)
    for _ in range(2):
        with pytest.raises(MiscompiledError) as caught:
            f(x)
    text = str(caught.value)
    assert re.match(rf"config.check: the compiled program of _model \(.*{HERE}:{LINE}\) gives other numbers", text)
    assert re.search(
        r"result\['second'\]: \S+ at index \(0, 0\) instead of \S+, 36 of 36 elements differ, by \S+ at most", text
    )
    assert re.search(rf"the first wrong value is that of sin \(at .*{HERE}:{LINE + 2}, in _model\)", text)
    assert "where rounding explains " in text and "quire.disable_jit()" in text and "dumpir --compare" in text
    with pytest.raises(
        MiscompiledError, match=r"(?s)compiled program of .*<lambda> \(.*first wrong value is that of sin"
    ):
        quire.jit(lambda x: qnp.sin(x)).lower(x).compile()(x)
    with pytest.raises(MiscompiledError, match=r"compiled program of scan \(at "):
        # The Fourier transform keeps the loop from being one kernel, which has a sine of its own.
        lax.scan(lambda c, _: (qnp.sin(qnp.fft.fft(c).real), c), qnp.arange(3.0), None, length=2)
    with pytest.raises(MiscompiledError, match=r"(?s)result: .*the first wrong value is that of sin"):
        quire.jit(lambda x: qnp.sin(x), donate_argnums=0)(qnp.full((3,), 2.0))


def test_programs_that_are_right_are_called_as_before() -> None:
    @quire.jit
    def f(x: Any, key: Any) -> Any:
        noise = quire.random.normal(key, (50,))
        c, ys = lax.scan(lambda c, n: (qnp.tanh(c * 1.1 + n), c.sum()), x, noise)
        n = lax.while_loop(lambda n: n < 5, lambda n: n + 1, 0)
        quire.debug.callback(lambda n: calls.append(int(n)), n)
        return {"c": c, "ys": [ys, n]}

    calls: list[int] = []
    x, key = np.arange(4, dtype=np.float32), quire.random.key(1)
    first, second = f(x, key), f(x, key)
    quire.effects_barrier()
    assert calls == [5, 5]  # not a third time
    np.testing.assert_array_equal(first["c"], second["c"])
    (variant,) = f.variants()
    assert variant.call.__name__ != "checked"

    g = quire.jit(lambda x: (x + 1, x.sum()), donate_argnums=0)
    a = qnp.arange(5.0)
    np.testing.assert_array_equal(g(a)[0], np.arange(5) + 1)
    assert a.is_deleted()


def test_callbacks_are_not_called_twice_and_it_is_said_why() -> None:
    calls: list[Any] = []
    f = quire.jit(
        lambda x: quire.pure_callback(lambda v: calls.append(v) or v, quire.ShapeDtypeStruct((2,), np.float32), x)
    )
    with pytest.warns(
        RuntimeWarning, match=rf"<lambda> \(.*{HERE}.*is not checked: it calls .* pure_callback \(at .*not called twice"
    ):
        f(np.ones(2, np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(np.ones(2, np.float32))
    assert len(calls) == 2


def test_the_environment_turns_it_on_for_cached_programs_too(tmp_path: Any) -> None:
    script = (
        "import quire, numpy as np\n"
        "from quire.passes import compare\n"
        "import quire.compiling.result_checks as r\n"
        "n = []\n"
        "r.compared = lambda *a: n.append(1) or compare.Equality(0.0, False)\n"
        "f = quire.jit(lambda x: x + 1)\n"
        "f(np.ones(3)); f(np.ones(3)); f(np.ones(4))\n"
        "print(quire.config.check, len(n), [v.from_cache for v in f.cache_info().variants])\n"
    )
    environment = {**os.environ, "QUIRE_CHECK": "1", "QUIRE_CACHE_DIR": str(tmp_path)}
    said = [
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=100
        ).stdout
        for _ in range(2)
    ]
    assert said == ["True 2 [False, False]\n", "True 2 [True, True]\n"]


# -- what rounding explains -------------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
LONG = RNG.standard_normal(20_000).astype(np.float32)


def _compare(f: Any, args: Sequence[Any], other: Any) -> Difference | Equality:
    """The reference's result of `f` beside other numbers."""
    from quire.backends import reference

    closed = trace(f, args)
    want = reference.eval_jaxpr(closed, *args)
    return first_difference(want, [np.asarray(other).astype(want[0].dtype)], rounding_of(closed, args, want))


def test_complex_numbers_are_compared_by_parts() -> None:
    """Where one part is infinite in both, the other tells whether they are equal."""
    want = np.array([complex(0.5, np.inf), complex(-np.inf, 2), complex(np.nan, 1)], np.complex64)
    near = want + np.array([6e-8, 2e-7j, 3], np.complex64)

    def explain() -> list[Any]:
        return [np.zeros(3)]

    assert isinstance(first_difference([want], [near], explain), Equality)
    for k, other in enumerate((complex(0.6, np.inf), complex(-np.inf, 2.1))):
        wrong = want.copy()
        wrong[k] = other
        found = first_difference([want], [wrong], explain)
        assert isinstance(found, Difference) and found.index == (k,) and abs(found.largest - 0.1) < 1e-6


def test_another_order_and_other_approximations_are_rounding() -> None:
    naive = np.float32(0)
    for v in np.abs(LONG):
        naive += v
    assert isinstance(_compare(lambda x: qnp.sum(qnp.abs(x)), [LONG], naive), Equality)
    cancelling = LONG - LONG.mean()
    assert isinstance(_compare(lambda x: qnp.sum(x), [cancelling], np.cumsum(cancelling)[-1]), Equality)
    a = RNG.standard_normal((64, 300)).astype(np.float32)
    exact = a.astype(np.float64)
    softmax = np.exp(exact @ exact.T) / np.exp(exact @ exact.T).sum(1, keepdims=True)
    assert isinstance(_compare(lambda a: quire.nn.softmax(a @ a.T), [a], softmax), Equality)
    # Differences of large numbers: what is left is rounding.
    big = np.float32(1e6) + a
    assert isinstance(_compare(lambda x: (x * 3 - x * 3.0000002) * 1e3, [big], (big * np.float32(3) - big * np.float64(3.0000002)) * 1e3), Equality)  # noqa: E501  # fmt: skip
    low = a.astype("bfloat16")
    assert isinstance(_compare(lambda x: (x * x).sum(1), [low], (low.astype(np.float64) ** 2).sum(1)), Equality)
    # Near a root: what is left of terms of the size of 1.
    near = np.float32([1.9862, 2.0126])
    assert isinstance(_compare(lambda x: lax.lgamma(x), [near], np.float32([-0.00577285, 0.00537812]) + 8e-7), Equality)
    logs = np.float32([-1, -1, -1.205])
    assert isinstance(_compare(lambda x: lax.cumlogsumexp(x), [logs], np.logaddexp.accumulate(logs) + 2e-7), Equality)
    # Where a rounded value decides.
    assert isinstance(_compare(lambda x: qnp.floor(x / 3 * 3), [np.float32([3, 4.1])], np.float32([3, 4])), Equality)
    assert isinstance(_compare(lambda x: qnp.argmax(x * 0.1), [np.float32([1, 1 + 1e-7, 0])], np.int32(0)), Equality)


def test_numbers_too_small_to_be_normal_may_be_zeros() -> None:
    # Seed 6903747 of the fuzz: products that underflow, compared with 0.
    x = np.full(120, 0.4, np.float32)
    exact = np.cumprod(x)
    assert ((0 < exact) & (exact < 1.17e-38)).any()
    assert isinstance(_compare(lambda x: qnp.cumprod(x) <= 0, [x], exact < 1.17e-38), Equality)


def test_what_is_wrong_is_not_rounding() -> None:
    def wrong(f: Any, args: Sequence[Any], other: Any) -> Difference:
        found = _compare(f, args, other)
        assert isinstance(found, Difference), found
        return found

    a = RNG.standard_normal((64, 64)).astype(np.float32)
    product = a @ a
    product[3, 4] += 0.01
    found = wrong(lambda a: a @ a, [a], product)
    assert (found.index, found.count, found.size) == ((3, 4), 1, 4096) and found.explained < 1e-3
    assert "1 of 4096 elements differ, by 0.01 at most, rounding explains " in str(found)
    ones = np.full(7, 1, "bfloat16")
    assert wrong(lambda x: qnp.sum(x), [ones], 1).before == 7
    wrong(lambda x: qnp.tanh(x), [a], np.tanh(a) * np.float32(1.0001))
    wrong(lambda x: qnp.floor(x) + 1, [np.float32([1, 2])], np.float32([2, 4]))  # exact values stay
    wrong(lambda x: qnp.sum(x), [np.arange(100, dtype=np.float32)], 4951)
    wrong(lambda x: x + 1, [np.arange(3)], np.int32([1, 2, 4]))
    wrong(lambda x: x > 0, [a[0]], a[0] <= 0)
    assert np.isnan(wrong(lambda x: x * 2, [a[:1, 0]], np.float32([np.nan])).after)
    assert isinstance(_compare(lambda x: x / 0, [np.float32([0, 1])], np.float32([np.nan, np.inf])), Equality)
    wrong(lambda x: x.astype("complex64") * 1j, [a[:2, 0]], 1j * a[:2, 0] + 1e-3)
