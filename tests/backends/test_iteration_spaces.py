"""Reductions whose result one operation reads along two of its loops: IREE computes them wrongly in one dispatch."""

from __future__ import annotations

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.backends.iree import worker
from quire.backends.iree.paths import compiler_library
from quire.backends.targets import get_target
from tests.helpers import Case, check

X = np.random.RandomState(0).randn(12, 7).astype(np.float32)
Y = np.random.RandomState(1).randn(12, 7).astype(np.float32)


def softmax_and_its_transpose(xp, x, y):
    e = xp.exp(x @ y.T / 8)
    p = e / e.sum(1, keepdims=True)
    return p - p.T


def not_equal_pairs(xp, x):
    s = (x * (1 + 1j)).sum(1)
    d = s[None, :] - s[:, None]
    return d + (d == 0).astype(s.dtype)


def hidden(xp, x, same):
    """Sums, and the same sums by way of an operation that changes none of them, read along two dimensions."""
    s = x.sum(1)
    return s[:, None] * same(s)[None, :]


def tiled(xp, m):
    """m times its sums along the other dimension, by way of arrays of one dimension."""
    return (m.reshape(-1) * xp.tile(m.sum(1), len(m))).reshape(m.shape)


def factors(xp, x, specs):
    """A square matrix times its sums: products that sum nothing, which IREE computes with the sums."""
    m = x[:7]
    for spec in specs:
        m = xp.einsum(spec, m, x[:7].sum(1))
    return m


def of_its_parts(xp, x, f):
    """Of a matrix that sums along one dimension are part of: what is reduced of it is read along the other one."""
    m = x[:7]
    return f(m * m.sum(0)[None, :])


CROSSED = {
    "differences": lambda xp, x, y: x.sum(1)[None, :] - x.sum(1)[:, None],
    "outer product": lambda xp, x, y: xp.outer(x.max(1), x.max(1)),
    "changed on the way": lambda xp, x, y: x.max(1)[None, :] * 2 - xp.exp(x.max(1)[:, None] / 8),
    "squared distances": lambda xp, x, y: (x * x).sum(1)[:, None] + (x * x).sum(1)[None, :] - 2 * (x @ x.T),
    "reshaped": lambda xp, x, y: x.max(1).reshape(1, -1) - x.max(1).reshape(-1, 1),
    "sliced": lambda xp, x, y: x.max(1)[None, 1:] - x.max(1)[1:, None],
    "indices": lambda xp, x, y: (x.argmax(1)[None, :] - x.argmax(1)[:, None]).astype(np.int32),
    "product with a vector": lambda xp, x, y: (x @ y[0])[None, :] - (x @ y[0])[:, None],
    "transposed": softmax_and_its_transpose,
    "three dimensions": lambda xp, x, y: (x @ y.T)[:, None, :] - (x @ y.T)[None, :, :],
    "factors of one matrix": lambda xp, x, y: factors(xp, x, ("ab,a->ba", "ab,a->ab")),
    "factors before and after": lambda xp, x, y: factors(xp, x, ("ab,b->ab", "ab,a->ab")),
    "factors one by one": lambda xp, x, y: factors(xp, x, ("ab,a->ba", "ab,a->ba", "ab,b->ba")),
    "tiled": lambda xp, x, y: tiled(xp, x[:7]) * x[:7].sum(1)[:, None],
    "part of what it multiplies": lambda xp, x, y: of_its_parts(xp, x, lambda m: m.max(0)[:, None] * m),
    "part of what it is multiplied with": lambda xp, x, y: of_its_parts(
        xp, x, lambda m: m * xp.einsum("ab,ab->b", m, m)[:, None]
    ),
    "gathered": lambda xp, x, y: (
        x[:7] * x[:7].sum(1)[:, None] * xp.take(x[:7].sum(1), xp.asarray([3, 2, 1, 0, 6, 5, 4]))
    ),
    "summed alone": lambda xp, x, y: hidden(xp, x, lambda v: xp.cumsum(v[:, None], 1)[:, 0]),
    "sorted alone": lambda xp, x, y: hidden(xp, x, lambda v: xp.sort(v[:, None], 1)[:, 0]),
    "taken in its order": lambda xp, x, y: hidden(
        xp, x, lambda v: xp.take_along_axis(v[:, None], xp.argsort(v[:, None], 1), 1)[:, 0]
    ),
    "transformed alone": lambda xp, x, y: hidden(xp, x, lambda v: xp.fft.fft(v[:, None], axis=1).real[:, 0]),
    "padded and cut": lambda xp, x, y: hidden(xp, x, lambda v: xp.pad(v, (1, 0))[1:]),
    "complex": lambda xp, x, y: not_equal_pairs(xp, x),
}
STRAIGHT = {
    "normalised rows": lambda xp, x, y: x / xp.sqrt((x * x).sum(1, keepdims=True)),
    "two reductions": lambda xp, x, y: x.sum(1)[None, :] - y.sum(1)[:, None],
    "no reduction": lambda xp, x, y: x[:, 0][None, :] - x[:, 0][:, None],
}
ALL = CROSSED | STRAIGHT


def ours(f):
    return lambda x, y: f(qnp, qnp.asarray(x), qnp.asarray(y))


def test_numbers_without_passes():
    check([Case(name, ours(f), (X, Y), lambda x, y, f=f: f(np, x, y), 1e-4, 1e-5) for name, f in ALL.items()])


def test_numbers_with_passes():
    compiled = quire.jit(lambda x, y: [f(qnp, x, y) for f in ALL.values()])
    for name, got in zip(ALL, compiled(X, Y), strict=True):
        np.testing.assert_allclose(got, ALL[name](np, X, Y), rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.fixture(scope="module")
def compiler() -> worker.Compiler:
    return worker.Compiler(str(compiler_library()))


def _times_formed(compiler, f) -> int:
    """How often dispatches are formed for a function of X and Y: again after some have been taken apart."""
    module = quire.jit(ours(f)).lower(X, Y).as_text().encode() + b"\0"
    invocation, lists = worker.Invocation(compiler, module, get_target("cpu").flags), list[str]()
    run = invocation.run_passes
    invocation.run_passes = lambda text: (lists.append(text), run(text))[1]
    assert invocation.parse() and all(invocation.compile_shown("flow", None)), invocation.diagnostics
    invocation.close()
    return sum("form-dispatch-regions" in text for text in lists)


def test_what_is_read_along_two_loops_leaves_the_dispatch(compiler):
    """Of others none is taken apart; some are kernels, or more than one dispatch anyhow."""
    times = {name: _times_formed(compiler, f) for name, f in ALL.items()}
    apart = {name for name, n in times.items() if n > 1}
    assert apart.isdisjoint(STRAIGHT)
    assert apart >= {
        "differences", "outer product", "changed on the way", "reshaped", "transposed", "three dimensions", "part of what it multiplies",
    }  # fmt: skip
    assert max(times.values()) < 4, times


@pytest.mark.parametrize("shape", [(2, 2), (33, 17), (3, 4, 5)], ids=str)
def test_what_is_summed_along_the_dimensions_of_a_stored_sum(shape):
    x = np.random.default_rng(0).integers(1, 4, shape).astype(np.float32)

    def of(axis: int) -> Case:
        def f(x):
            s = qnp.sum(x, axis, keepdims=True)
            along = [qnp.sum(x * s, b) for b in range(x.ndim)]
            return [s, qnp.sum(x - s), *along, qnp.max(x - s), qnp.mean(x) - s, qnp.sum(qnp.max(x, axis)[0] - s * 2)]

        return Case(f"axis {axis}", f, [x])

    def log_softmax(x):
        y, pull = quire.vjp(lambda x: qnp.sum(quire.nn.log_softmax(x, 0)), x)
        return [y, *pull(0.5 - 0.25 * y)]

    check([*(of(axis) for axis in range(x.ndim)), Case("log softmax", log_softmax, [x], rtol=1e-4, atol=1e-4)])


@pytest.mark.parametrize("spec", ["ab,ad->adb", "ab,cd->cadb", "ab,cb->ac", "ab,ba->ab"])
def test_products_of_a_sum_with_itself(spec):
    """One that sums nothing is computed with its operands, each along dimensions of its own."""
    x = np.random.default_rng(0).standard_normal((3, 3, 3)).astype("float32")

    def product(summed):
        def f(x):
            s = summed(x)
            return [qnp.einsum(spec, s, s)]

        return f

    sums = {
        "sum": lambda x: qnp.sum(x, 0),
        "mean": lambda x: qnp.mean(x, 1) * 2,
        "of sums": lambda x: qnp.cumsum(qnp.sum(x, 2), 0),
    }
    check([Case(name, product(summed), [x]) for name, summed in sums.items()])


def _twice(axis, keepdims=True):
    def f(x):
        s = qnp.sum(x, axis, keepdims=keepdims)
        y = x + 0.1 * (s if keepdims else qnp.expand_dims(s, axis))
        return [qnp.sum(y, axis), y, s]

    return f


@pytest.mark.parametrize("n", [16, 17, 33])
def test_sums_of_what_sums_are_part_of(n):
    """Both sums are stored, and begin with the same zeros: IREE lets the second write over the first."""
    x = np.random.default_rng(0).uniform(0.5, 2, (15, n, n)).astype("float32")

    def largest(x):
        m = qnp.max(x, -1, keepdims=True)
        return [qnp.max((x - m) ** 2, -1), m, x - m]

    def three(x):
        s = qnp.sum(x, -1, keepdims=True)
        t = qnp.sum((x - s) ** 2, -1, keepdims=True)
        return [qnp.sum((x - s) / t, -1), t, s]

    def means(x):
        s, t = qnp.mean(x, -1, keepdims=True), qnp.mean(x * x, -1, keepdims=True)
        return [qnp.mean(x * s + t, -1), t, s]

    check([
        Case("complex", means, [x + 1j * x[::-1]], rtol=1e-4),
        *(Case(f"sums {axis} {keep}", _twice(axis, keep), [x]) for axis in (-1, -2, 0) for keep in (True, False)),
        Case("largest", largest, [x]),
        Case("three", three, [x]),
    ])  # fmt: skip


@pytest.mark.parametrize("shape", [(15, 17, 17), (3, 33, 17), (64, 18)], ids=str)
def test_chains_of_reductions(shape):
    """What leads from a reduction to the next is stored too, and each reduction is of another kind."""
    x = np.random.default_rng(0).uniform(0.1, 1, shape).astype("float32")
    kinds = {
        "sum": lambda y, axis: qnp.sum(y, axis, keepdims=True),
        "prod": lambda y, axis: qnp.prod(1 + 0.01 * y, axis, keepdims=True),
        "max": lambda y, axis: qnp.max(y, axis, keepdims=True),
    }

    def chain(names, axis):
        def f(x):
            y, kept = x, []
            for name in names:
                s = kinds[name](y, axis)
                m = qnp.sqrt(qnp.abs(s)) / 3
                y = y * 0.5 - m
                kept += [s, m, y]
            return [*kept[len(names) % 3 :: 2], *kept[:3], qnp.sum(y, axis)]

        return f

    check([
        Case(f"{names} {axis}", chain(names, axis), [x], rtol=1e-3, atol=1e-3)
        for axis in (0, -1)
        for names in (("prod", "sum"), ("max", "sum", "sum"), ("sum", "sum", "prod"), ("max", "prod", "sum"), ("sum", "max", "sum"))
    ])  # fmt: skip


def test_mean_of_a_log_softmax_and_its_tangent():
    """Two sums, of the primals and of the tangents, meet before both are spread."""
    x = np.array([[1, -1], [2, 0]], np.float32)

    def mean(x):
        return qnp.mean(quire.nn.log_softmax(x, axis=-2), axis=(0, 1), keepdims=True)

    check([Case("mean", lambda x: list(quire.jvp(mean, (x,), (x * 0.5 + 0.25,))), [x])])


def test_gradient_of_a_determinant():
    a = np.random.default_rng(1).uniform(0.5, 2, (15, 17, 17)).astype("float32")

    def f(a):
        y, pull = quire.vjp(lambda a: qnp.linalg.det(qnp.eye(17, dtype="float32") + 0.01 * qnp.tanh(a)), a)
        return [y, *pull(0.5 - 0.25 * y)]

    for got, want in zip(quire.jit(f)(a), f(a), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
