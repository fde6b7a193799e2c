"""Attention by one kernel: no scores in memory, whatever the layout, the mask, the lengths and the tails."""

import dataclasses

import numpy as np
import pytest

import quire
import quire.nn as nn
import quire.numpy as qnp
from quire.backends.targets import TARGETS

rng = np.random.default_rng(5)


def normal(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def softmax(x):
    e = qnp.exp(x - qnp.max(x, axis=-1, keepdims=True))
    return e / qnp.sum(e, axis=-1, keepdims=True)


def by_hand(q, k, v):
    return softmax(q @ qnp.swapaxes(k, -1, -2) * 0.125) @ v


def biased(q, k, v, bias, mask):
    scores = q @ qnp.swapaxes(k, -1, -2) + bias
    return nn.softmax(qnp.where(mask, scores, -1e30)) @ v


def normalised(q, k, v):
    """No softmax: any cluster of reductions over rows."""
    s = q @ qnp.swapaxes(k, -1, -2)
    s = s - qnp.mean(s, axis=-1, keepdims=True)
    return (qnp.tanh(s) / qnp.sqrt(1 + qnp.sum(s * s, axis=-1, keepdims=True))) @ v


#: Of each of 4 times 60 queries from each of 80 keys.
DISTANCE = np.broadcast_to(np.arange(60)[:, None] - np.arange(80), (4, 60, 80))

CASES = {
    "by hand": (by_hand, (normal(2, 3, 64, 16), normal(2, 3, 64, 16), normal(2, 3, 64, 16))),
    "odd sizes": (by_hand, (normal(5, 37, 19), normal(5, 101, 19), normal(5, 101, 23))),
    "one head, keys stored by columns": (
        lambda q, k, v: softmax(q @ k * 0.3) @ v, (normal(190, 24), normal(24, 96), normal(96, 40)),
    ),
    "one head": (by_hand, (normal(1, 200, 16), normal(1, 150, 16), normal(1, 150, 24))),
    "one head of several arrays": (by_hand, (normal(3, 1, 90, 16), normal(3, 1, 80, 16), normal(3, 1, 80, 16))),
    "several parts of the queries": (by_hand, (normal(530, 32), normal(160, 32), normal(160, 32))),
    "few queries": (by_hand, (normal(6, 9, 64), normal(6, 400, 64), normal(6, 400, 64))),
    "bias and mask": (
        biased,
        (normal(2, 2, 60, 32), normal(2, 2, 80, 32), normal(2, 2, 80, 32), normal(2, 1, 80), normal(60, 80) > -1),
    ),
    "bias by distance, gathered": (
        lambda q, k, v, bias, distance: softmax(q @ qnp.swapaxes(k, -1, -2) + bias[distance]) @ v,
        (normal(4, 60, 16), normal(4, 80, 16), normal(4, 80, 16), normal(139), DISTANCE),
    ),
    "any reductions": (normalised, (normal(4, 48, 16), normal(4, 96, 16), normal(4, 96, 16))),
    "nn": (nn.dot_product_attention, tuple(normal(2, 70, 4, 16) for _ in range(3))),
    "nn, causal": (
        lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True), tuple(normal(2, 70, 4, 16) for _ in range(3)),
    ),
    "nn, one head": (nn.dot_product_attention, tuple(normal(150, 1, 16) for _ in range(3))),
    "einsum": (
        lambda q, k, v: qnp.einsum("bhqk,bkhd->bqhd", softmax(qnp.einsum("bqhd,bkhd->bhqk", q, k)), v),
        tuple(normal(2, 64, 4, 16) for _ in range(3)),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def outcomes():
    """The results of all cases from one compiled program, those of the operations one by one, and the program."""

    def everything(arguments):
        return {name: f(*arguments[name]) for name, (f, _) in CASES.items()}

    arguments = {name: given for name, (_, given) in CASES.items()}
    compiled = quire.compile(everything)
    with quire.disable_jit():
        wanted = everything(arguments)
    return compiled(arguments), wanted, compiled.lower(arguments).as_text()


@pytest.mark.parametrize("name", CASES)
def test_results(outcomes, name):
    got, wanted, _ = outcomes
    np.testing.assert_allclose(got[name], wanted[name], rtol=1e-4, atol=1e-5)


def test_each_is_one_kernel(outcomes):
    chosen = [line for line in outcomes[2].splitlines() if line.startswith("// ")]
    kernels = [line for line in chosen if "kernel attention" in line]
    assert len(kernels) == len(CASES), "\n".join(chosen)


def test_nan_and_infinities():
    q, k, v = normal(2, 32, 16), normal(2, 96, 16), normal(2, 96, 16)
    q[0, 3], q[1, 4, 2], v[0, 5, 6] = np.nan, np.inf, np.inf
    mask = rng.random((32, 96)) > 0.3
    mask[7] = False

    def f(q, k, v, mask):
        return nn.softmax(qnp.where(mask, q @ qnp.swapaxes(k, -1, -2), -np.inf)) @ v

    with quire.disable_jit(), np.errstate(invalid="ignore"):
        wanted = f(q, k, v, mask)
    np.testing.assert_allclose(quire.compile(f)(q, k, v, mask), wanted, rtol=1e-4, atol=1e-5)


def test_what_is_declined_is_computed_as_before(monkeypatch):
    """Scores rounded to 16 bits, and rows that are too short: the reason is printed, the reduction has its kernel."""
    monkeypatch.setitem(TARGETS, "cpu", dataclasses.replace(TARGETS["cpu"], vector_bytes=64))

    def f(q, k, v, x, y):
        a = by_hand(q.astype("bfloat16"), k.astype("bfloat16"), v.astype("bfloat16")).astype("float32")
        return a, softmax(x @ y.T) @ y, by_hand(q[:, :1], k, v)

    args = (normal(90, 50, 16), normal(90, 200, 16), normal(90, 200, 16), normal(2000, 16), normal(9, 16))
    compiled = quire.compile(f)
    text = compiled.lower(*args).as_text()
    assert "no attention kernel: 90 x 50x16 @ 16x200: sums in bf16 of bf16 scores" in text
    assert "rows of 9 elements" in text and "1 rows are not worth packing the right operands for" in text
    with quire.disable_jit():
        wanted = f(*args)
    for x, y in zip(compiled(*args), wanted):
        np.testing.assert_allclose(x, y, atol=0.03)


def gradient(f):
    return quire.grad(lambda *xs: qnp.sum(f(*xs) ** 2), argnums=(0, 1, 2))


def linear(f):
    """Both products are read by one cluster, as nothing comes between them."""
    return quire.grad(lambda g, *xs: qnp.sum(f(*xs) * g), argnums=(1, 2, 3))


def by_nn(q, k, v):
    return nn.softmax(q @ qnp.swapaxes(k, -1, -2) * 0.125) @ v


def with_weights(q, k, v):
    p = softmax(q @ qnp.swapaxes(k, -1, -2))
    return p, p @ v


def stored_twice(q, k, v):
    e = qnp.exp(q @ qnp.swapaxes(k, -1, -2) * 0.1)
    p = e / qnp.sum(e, axis=-1, keepdims=True)
    return e, p, p @ v


# name -> (function, arguments, kernels, what their reasons say)
STORING = {
    "weights": (with_weights, (normal(3, 61, 16), normal(3, 90, 16), normal(3, 90, 24)), 1, "1 arrays of rows stored"),
    "several arrays": (
        stored_twice, (normal(3, 61, 16), normal(3, 97, 16), normal(3, 97, 24)), 1, "2 arrays of rows stored",
    ),
    "gradient": (gradient(by_nn), tuple(normal(2, 96, 16) for _ in range(3)), 2, "1 arrays of rows stored"),
    "gradient, odd sizes": (
        gradient(by_nn), (normal(5, 37, 19), normal(5, 101, 19), normal(5, 101, 23)), 2, "1 arrays of rows stored",
    ),
    "gradient, several parts": (
        gradient(by_nn), (normal(530, 32), normal(160, 32), normal(160, 32)), 2, "1 arrays of rows stored",
    ),
    "gradient, one head": (gradient(by_nn), tuple(normal(1, 150, 16) for _ in range(3)), 2, "1 arrays of rows stored"),
    "gradient, mask": (
        gradient(lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True)),
        tuple(normal(2, 70, 4, 16) for _ in range(3)), 2, "1 arrays of rows stored",
    ),
    "linear": (
        linear(by_hand), (normal(2, 3, 50, 16), *(normal(2, 3, n, 16) for n in (50, 67, 67))), 1,
        "50x16 @ 16x67 and 6 x 50x16 @ 16x67, reduce_max+reduce_sum of their rows, times 67x16: 2 arrays of rows stored",
    ),
    "linear, any reductions": (
        linear(normalised), (normal(4, 48, 20), normal(4, 48, 16), normal(4, 96, 16), normal(4, 96, 20)), 1,
        "2 arrays of rows stored",
    ),
}  # fmt: skip


def test_rows_that_are_read_elsewhere_are_stored_and_multiplied():
    arguments = {name: given for name, (_, given, _, _) in STORING.items()}

    def everything(arguments):
        return {name: STORING[name][0](*given) for name, given in arguments.items()}

    compiled = quire.compile(everything)
    got = compiled(arguments)
    with quire.disable_jit():
        wanted = everything(arguments)
    for name in STORING:
        for x, y in zip(got[name], wanted[name]):
            np.testing.assert_allclose(x, y, rtol=2e-3, atol=2e-4, err_msg=name)
    for name, (f, given, count, what) in STORING.items():
        chosen = [s for s in quire.compile(f).lower(*given).as_text().splitlines() if s.startswith("// fusion")]
        kernels = [s for s in chosen if "kernel attention" in s]
        assert len(kernels) == count and all(what in s for s in kernels), (name, chosen)


def test_gradients_that_are_declined_are_computed_as_before():
    g = gradient(by_nn)
    x = tuple(normal(4, 70, 16).astype("bfloat16") for _ in range(3))
    compiled = quire.compile(g)
    assert "no attention kernel: 4 x 70x16 @ 16x70: sums in bf16 of bf16 scores" in compiled.lower(*x).as_text()
    with quire.disable_jit():
        wanted = g(*x)
    for a, b in zip(compiled(*x), wanted):
        np.testing.assert_allclose(a.astype(np.float32), b.astype(np.float32), rtol=0.1, atol=0.1)


def test_the_gradient_is_that_of_the_operations():
    q, k, v = (normal(2, 96, 16) for _ in range(3))
    g = quire.grad(lambda q, k, v: qnp.sum(by_hand(q, k, v) ** 2), argnums=(0, 1, 2))
    with quire.disable_jit():
        wanted = g(q, k, v)
    for x, y in zip(quire.compile(g)(q, k, v), wanted):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)
