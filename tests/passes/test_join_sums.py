"""join-sums: sums of sums are one, and the numbers stay."""

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.passes.base import PassContext
from quire.passes.join_sums import JoinSums
from quire.passes.manager import PassManager

RNG = np.random.default_rng(5)
X = RNG.standard_normal((6, 4, 5)).astype(np.float32)
Y = RNG.standard_normal((6, 4, 3)).astype(np.float32)
N = RNG.integers(-99, 99, (6, 4, 5)).astype(np.int32)


def layer(w, x, y):
    return qnp.mean((qnp.tanh(x @ w) - y) ** 2)


def mean_of_gradients(x, y):
    return quire.vmap(quire.grad(layer), (None, 0, 0))(X[0, :, :3].T @ Y[0], x[:, 0, :3], y[:, 0]).mean(0)


CASES = {  # a function of X and Y, how many sums are joined
    "sums of sums": (lambda x, y: x.sum(2).sum(0), 1),
    "three times": (lambda x, y: x.sum(2).sum(0).sum(), 2),
    "largest": (lambda x, y: x.max(0).max(1), 1),
    "integers": (lambda x, y: (N * x.astype(int)).sum(1).sum(), 1),
    "all": (lambda x, y: (x > y[:, :, :1]).all(1).all(), 1),
    "sum of the largest": (lambda x, y: x.max(0).sum(1), 0),
    "products": (lambda x, y: qnp.einsum("bki,bkj->bij", x, y).sum(0), 1),
    "outer products": (lambda x, y: qnp.einsum("bi,bj->bij", x[:, 0], y[:, 0]).sum(0), 1),
    "some of the batch": (lambda x, y: qnp.einsum("bki,bkj->bkij", x, y).sum(1), 1),
    "all of the batch": (lambda x, y: qnp.einsum("bki,bkj->bkij", x, y).sum((0, 1)), 1),
    "batch behind": (lambda x, y: qnp.einsum("kbi,kbj->bij", x, y).sum(0), 1),
    "not together": (lambda x, y: qnp.einsum("bik,bjk->bij", x, 2 * x).sum(0), 0),
    "another order": (lambda x, y: qnp.einsum("bki,kbj->bij", x, x.transpose(1, 0, 2)).sum(0), 0),
    "a free dimension": (lambda x, y: qnp.einsum("bki,bkj->bij", x, y).sum(1), 0),
    "read twice": (lambda x, y: (lambda s: s.sum(0) + s[0])(x.sum(2)), 0),
    "halves": (lambda x, y: x.astype("float16").sum(2).sum(0).astype("float32"), 0),
    "per-example gradients": (mean_of_gradients, 1),
    "a small product of repeated arrays": (lambda x, y: (x[:, 0, :, None] * y[:, 0, None, :]).sum(0), 0),
    "in a loop": (lambda x, y: quire.lax.fori_loop(0, 3, lambda i, c: c / 2 + (x * c).sum(2).sum(0).mean(), x), 2),
}


@pytest.fixture(scope="module")
def compiled():
    """All functions in one program."""
    return quire.jit(lambda x, y: {name: f(x, y) for name, (f, _) in CASES.items()})(X, Y)


@pytest.mark.parametrize("name", CASES)
def test_what_is_joined(name, compiled):
    f, expected = CASES[name]
    closed = PassManager("inline,simplify,cse,dce").run(quire.make_jaxpr(f)(X, Y))
    context = PassContext()
    PassManager("join-sums", verify_each=True, compare=True, compare_inputs=[X, Y]).run(closed)
    JoinSums().apply(closed, context)
    assert sum(n for k, n in context.counters.items() if k.startswith("join ")) == expected
    with quire.disable_jit():
        reference = f(qnp.asarray(X), qnp.asarray(Y))
    np.testing.assert_allclose(compiled[name], reference, rtol=2e-5, atol=1e-5)


PRODUCTS = {  # sums of products of repeated arrays: of these shapes, as einsum has them
    "bi,bj->ij": lambda x, y: (x[:, :, None] * y[:, None, :]).sum(0),
    "bj,bi->ij": lambda x, y: (x[:, None, :] * y[:, :, None]).sum(0),
    "ib,jb->ij": lambda x, y: (x[:, None] * y[None]).sum(-1),
    "ib,jb->ji": lambda x, y: (x[None] * y[:, None]).sum(-1),
    "bki,bkj->kij": lambda x, y: (x[..., None] * y[:, :, None]).sum(0),
    "bki,bkj->kji": lambda x, y: (x[:, :, None] * y[..., None]).sum(0),
    "bki,bkj->ij": lambda x, y: (x[..., None] * y[:, :, None]).sum((0, 1)),
    "bki,bkj->bij": lambda x, y: (x[..., None] * y[:, :, None]).sum(1),
}
SIZES = {"b": 24, "k": 6, "i": 33, "j": 40}


@pytest.mark.parametrize("spec", PRODUCTS)
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_sums_of_products_of_repeated_arrays_are_contractions(spec, dtype):
    given = [tuple(SIZES[c] for c in part) for part in spec.split("->")[0].split(",")]
    x, y = (RNG.standard_normal(s).astype(dtype) for s in given)
    closed = PassManager("inline,simplify,cse,dce").run(quire.make_jaxpr(PRODUCTS[spec])(x, y))
    joined = PassManager("join-sums,dce", verify_each=True, compare=True, compare_inputs=[x, y]).run(closed)
    names = [eqn.primitive.name for eqn in joined.jaxpr.eqns]
    assert names.count("dot_general") == 1 and "reduce_sum" not in names and "broadcast_in_dim" not in names
    np.testing.assert_allclose(quire.jit(PRODUCTS[spec])(x, y), np.einsum(spec, x, y), rtol=1e-4, atol=1e-4)


def test_mean_of_per_example_gradients_is_a_product_of_matrices():
    """No array of all examples' gradients is left."""
    jaxpr = PassManager("inline,simplify,join-sums,dce").run(quire.make_jaxpr(mean_of_gradients)(X, Y)).jaxpr
    assert not any(v.aval.shape == (6, 3, 3) for eqn in jaxpr.eqns for v in eqn.outputs)
