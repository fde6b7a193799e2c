"""Reductions of short rows: the lanes of a vector are neighbouring rows."""

import numpy as np
import pytest

import quire
import quire.numpy as qnp

rng = np.random.default_rng(3)


def normal(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def softmax(x):
    e = qnp.exp(x - qnp.max(x, -1, keepdims=True))
    return e / qnp.sum(e, -1, keepdims=True)


def nearest(x, b):
    n = qnp.argmin(x - b, axis=1)
    return n, (n[:, None] == qnp.arange(x.shape[1])[None]).astype("float32")


X = normal(1797, 10)
X[3, 4], X[5, 2:5], X[7] = np.nan, np.inf, -np.inf
TIES = rng.integers(0, 3, (3001, 7)).astype(np.float32)

# All of at least 16384 elements: smaller ones are left alone.
CASES = {
    "sum of 3": (lambda x: qnp.sum(x, -1), (normal(9999, 3),)),
    "softmax": (softmax, (normal(2003, 10),)),
    "nan and infinities": (lambda x: (softmax(x), qnp.max(x, -1), qnp.argmax(x, -1)), (X,)),
    "nearest": (nearest, (X, normal(10))),
    "ties": (lambda x: (qnp.argmin(x, -1), qnp.argmax(x, -1)), (TIES,)),
    "several dimensions": (lambda x: qnp.sum(x * x, (-1, -2)) + 1, (normal(40, 101, 2, 3),)),
    "operands of rows and columns": (
        lambda x, a, b: softmax(x * a[:, None] + b) * a[:, None], (normal(4001, 5), normal(4001), normal(5)),
    ),
    "integers": (lambda x: (qnp.sum(x, 1), qnp.min(x, 1)), (rng.integers(-99, 99, (5000, 6)).astype(np.int32),)),
    "bools": (lambda x: (qnp.all(x, 1), qnp.any(x, 1)), (rng.random((5000, 4)) > 0.3,)),
    "complex": (lambda x: qnp.sum(x * x, 1), ((normal(5000, 4) + 1j * normal(5000, 4)).astype(np.complex64),)),
    "halves": (lambda x: qnp.sum(x.astype("bfloat16"), 1).astype("float32"), (normal(5000, 4),)),
    "norm": (lambda x: x / qnp.sqrt(qnp.sum(x * x, -1, keepdims=True)), (normal(8193, 2),)),
}  # fmt: skip


@pytest.fixture(scope="module")
def outcomes():
    """The results of all cases from one compiled program, those of the operations one by one, and the program."""

    def everything(arguments):
        return {name: f(*arguments[name]) for name, (f, _) in CASES.items()}

    arguments = {name: given for name, (_, given) in CASES.items()}
    compiled = quire.compile(everything)
    with quire.disable_jit(), np.errstate(invalid="ignore"):
        wanted = everything(arguments)
    return compiled(arguments), wanted, compiled.lower(arguments).as_text()


@pytest.mark.parametrize("name", CASES)
def test_results(outcomes, name):
    got, wanted, _ = outcomes
    for x, y in zip(quire.tree_util.tree_leaves(got[name]), quire.tree_util.tree_leaves(wanted[name]), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert x.dtype == y.dtype
        if x.dtype.kind in "fc":
            np.testing.assert_allclose(
                x, y, rtol=0.02 if name == "halves" else 1e-4, atol=0.02 if name == "halves" else 1e-5
            )
        else:
            np.testing.assert_array_equal(x, y)


def test_each_is_a_kernel(outcomes):
    assert "no kernel" not in "".join(line for line in outcomes[2].splitlines() if line.startswith("//"))
    assert "argmin with its neighbours: 16 rows of 10 elements at once" in outcomes[2] or "8 rows of 10" in outcomes[2]
