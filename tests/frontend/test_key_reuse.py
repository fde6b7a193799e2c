"""`config.debug_key_reuse`: a key used twice is reported with both lines, outside and inside of traced functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire import random as qr
from quire.errors import KeyReuseError
from quire.ir.config import config


@pytest.fixture(autouse=True)
def reported() -> Iterator[None]:
    with config.override(debug_key_reuse=True):
        yield


def twice(k: Any) -> Any:
    a = qr.normal(k)  # first
    return a + qr.uniform(k)  # second


def line_of(comment: str) -> int:
    with open(__file__) as file:
        return next(i for i, text in enumerate(file, 1) if text.rstrip().endswith(f"  # {comment}"))


WRONG = {
    "eager": lambda k: twice(k),
    "split": lambda k: (qr.normal(k), qr.split(k)),
    "compiled": lambda k: quire.jit(twice)(k),
    "vmap": lambda k: quire.vmap(twice)(qr.split(k)),
    "grad": lambda k: quire.grad(lambda x: x * twice(k))(1.0),
    "scan constant": lambda k: lax.scan(lambda c, x: (c + qr.normal(k), x), 0.0, qnp.arange(3.0)),
    "scan carry": lambda k: lax.scan(lambda c, x: (c, qr.normal(c)), k, qnp.arange(3.0)),
    "scan row": lambda k: lax.scan(lambda c, x: (c + twice(x), x), 0.0, qr.split(k)),
    "fori constant": lambda k: lax.fori_loop(0, 3, lambda i, c: c + qr.normal(k), 0.0),
    "branch and after": lambda k: lax.cond(True, qr.normal, lambda q: 0.0, k) + qr.normal(k),
    "compiled branch": lambda k: quire.jit(lambda q: lax.cond(True, qr.normal, lambda r: 0.0, q) + qr.normal(q))(k),
    "compiled twice": lambda k: (quire.jit(qr.normal)(k), quire.jit(qr.normal)(k)),
    "compiled and eager": lambda k: (quire.jit(qr.normal)(k), qr.uniform(k)),
    "nested": lambda k: quire.jit(lambda q: quire.jit(qr.normal)(q) + qr.normal(q))(k),
    "slice": lambda k: [qr.normal(s[0]) for s in [qr.split(k)] for _ in range(2)],
    "slice and whole": lambda k: [(qr.normal(s[0]), quire.vmap(qr.normal)(s)) for s in [qr.split(k)]],
    "compiled slice": lambda k: quire.jit(lambda s: qr.normal(s[0]) + qr.uniform(s[0]))(qr.split(k)),
    "compiled slice and whole": lambda k: quire.jit(lambda s: qr.normal(s[0]) + quire.vmap(qr.normal)(s))(qr.split(k)),
}
RIGHT = {
    "split": lambda k: [qr.normal(s) for s in qr.split(k, 3)],
    "slices": lambda k: quire.jit(lambda s: qr.normal(s[0]) + qr.normal(s[1]))(qr.split(k)),
    "eager slices": lambda k: [qr.normal(s[i]) for s in [qr.split(k)] for i in range(2)],
    "vmap": lambda k: quire.vmap(qr.normal)(qr.split(k)),
    "clone": lambda k: (qr.normal(qr.clone(k)), qr.normal(qr.clone(k)), qr.normal(k)),
    "fold_in": lambda k: [qr.normal(qr.fold_in(k, i)) for i in range(3)],
    "scan carry": lambda k: lax.scan(lambda c, x: tuple(qr.split(c)), k, qnp.arange(3.0)),
    "scan rows": lambda k: lax.scan(lambda c, x: (c + qr.normal(x), x), 0.0, qr.split(k)),
    "branches": lambda k: lax.cond(True, qr.normal, qr.uniform, k),
    "grad of a sample": lambda k: quire.grad(lambda a: qr.gamma(k, a))(2.0),
    "grad of vmap": lambda k: quire.grad(lambda a: quire.vmap(lambda q: qr.normal(q) * a)(qr.split(k)).sum())(2.0),
    "compiled": lambda k: quire.jit(lambda q: [qr.normal(s, (2,)) for s in qr.split(q)])(k),
    "samplers": lambda k: [f(s) for f, s in zip((lambda q: qr.beta(q, 2.0, 3.0), qr.maxwell, qr.rademacher), qr.split(k, 3))],
    "raw": lambda k: [qr.normal(qr.key_data(k)) for _ in range(2)],
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_reported(name: str) -> None:
    with pytest.raises(KeyReuseError, match="a random key is used twice.*first by quire.random.*then by quire.random"):
        WRONG[name](qr.key(0))


@pytest.mark.parametrize("name", RIGHT)
def test_not_reported(name: str) -> None:
    RIGHT[name](qr.key(0))


@pytest.mark.parametrize("how", ["eager", "compiled", "vmap"])
def test_both_lines(how: str) -> None:
    with pytest.raises(KeyReuseError) as caught:
        WRONG[how](qr.key(0))
    text = str(caught.value)
    assert "first by quire.random.normal" in text and "then by quire.random.uniform" in text
    assert f"test_key_reuse.py:{line_of('first')}" in text and f"test_key_reuse.py:{line_of('second')}" in text
    assert "quire.random.split(key)" in text and "quire.random.clone(key)" in text


def test_off() -> None:
    with config.override(debug_key_reuse=False):
        k = qr.key(0)
        twice(k)
        assert "use_key" not in str(quire.make_jaxpr(twice)(k))
    assert str(quire.make_jaxpr(qr.normal)(k)).count("use_key") == 1
