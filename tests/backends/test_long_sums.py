"""Long sums are sums of shorter ones: their rounding errors do not grow with the number of terms."""

import numpy as np
import pytest

import quire
import quire.numpy as qnp

K = 1 << 20
RNG = np.random.default_rng(3)
A, B = (RNG.random((K, 4), np.float32) for _ in range(2))
OTHER, WIDE = RNG.random((K, 9), np.float32), RNG.random((3, K), np.float32)


def per_example(n, a, b):
    """The mean of the gradients of K examples, as a product."""
    gradients = quire.vmap(quire.grad(lambda w, x, y: (x @ w) @ y), (None, 0, 0))(n.ones((4, 4)), a, b)
    return gradients.mean(0) * K


def summed_in_turns(n, a):
    if n is np:
        return 3 * a.sum(0)
    return quire.lax.fori_loop(0, 3, lambda i, c: c + (a + 0 * c).sum(0), n.zeros(4))


CASES = {  # of NumPy's functions, which also compute what is expected, in float64
    "few columns": lambda n, a, b, c, w: a.T @ b,
    "odd columns": lambda n, a, b, c, w: a.T @ c,
    "with an epilogue": lambda n, a, b, c, w: n.sqrt(a.T @ c) + 1,
    "one column": lambda n, a, b, c, w: a.T @ b[:, 0],
    "row by rows": lambda n, a, b, c, w: w[0] @ c,
    "rows by columns": lambda n, a, b, c, w: w @ c,
    "dots": lambda n, a, b, c, w: w @ w.T,
    "one dot": lambda n, a, b, c, w: n.dot(w[0], w[1]),
    "two summed dimensions": lambda n, a, b, c, w: n.einsum("bki,bkj->ij", a.reshape(K // 8, 8, 4), b.reshape(K // 8, 8, 4)),
    "columns": lambda n, a, b, c, w: (a * a).sum(0),
    "odd numbers of columns": lambda n, a, b, c, w: c.mean(0),
    "of a batch": lambda n, a, b, c, w: n.reshape(a, (4, K // 4, 4)).sum(1),
    "rows": lambda n, a, b, c, w: (w * w).mean(1),
    "one row": lambda n, a, b, c, w: (w[0] * w[1]).sum(),
    "too few columns for a kernel": lambda n, a, b, c, w: n.exp(a[:, :3]).sum(0),
    "with a rest": lambda n, a, b, c, w: a[: K - 13, :3].sum(0),
    "dimensions apart": lambda n, a, b, c, w: n.reshape(a, (1024, 4, 1024)).sum((0, 2)),
    "a loop": lambda n, a, b, c, w: summed_in_turns(n, a),
    "columns of a fusion": lambda n, a, b, c, w: n.exp(-a).sum(0),
}  # fmt: skip


@pytest.fixture(scope="module")
def found():
    return quire.jit(lambda *x: {name: f(qnp, *x) for name, f in CASES.items()})(A, B, OTHER, WIDE)


@pytest.mark.parametrize("name", CASES)
def test_sums_are_as_exact_as_short_ones(name, found):
    expected = CASES[name](np, *(x.astype(np.float64) for x in (A, B, OTHER, WIDE)))
    np.testing.assert_allclose(found[name], expected, rtol=2e-6)


def test_the_mean_of_per_example_gradients():
    expected = A.astype(np.float64).T @ B.astype(np.float64)
    np.testing.assert_allclose(quire.jit(lambda a, b: per_example(qnp, a, b))(A, B), expected, rtol=2e-6)


def test_extremes_of_long_rows_stay():
    """Parts begin with the neutral element: signs of zero, infinities and NaN come through."""
    rows = np.full((K, 4), -0.0, np.float32)
    rows[7, 1], rows[9, 2], rows[K - 1, 3] = np.inf, np.nan, 3
    sums = np.asarray(quire.jit(lambda x: x.sum(0))(rows))
    np.testing.assert_array_equal(sums, [-0.0, np.inf, np.nan, 3])
    assert list(quire.jit(lambda x: (x.argmax(0), x.max(0)))(rows)[0]) == [0, 7, 9, K - 1]


@pytest.mark.parametrize("shape", [(9000, 1100), (5_000_000, 1), (1_000_000, 3), (300_000, 20)])
def test_sums_of_equal_numbers(shape):
    """Whose rounding errors all go one way: the mean is the number."""
    x = np.full(shape, 0.7123847, np.float32)
    np.testing.assert_allclose(quire.jit(lambda x: qnp.mean(x, 0))(x), x[0], rtol=1e-5)
