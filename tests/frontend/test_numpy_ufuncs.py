"""ufunc objects against NumPy's (values) and JAX's (dtypes, signatures)."""

from __future__ import annotations

import inspect
import pickle
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quire
import quire.numpy as qnp

from .numpy_cases import array_of, same

NAMES = [n for n in dir(jnp) if isinstance(getattr(jnp, n), jnp.ufunc)]
BINARY = [n for n in NAMES if n != "negative"]
FLOATS = ("logaddexp", "logaddexp2")


def operand(name, *shape):
    dtype = (
        "float32"
        if name in FLOATS
        else "int32"
        if name.startswith("bitwise")
        else "bool"
        if name.startswith("logical")
        else "float32"
    )
    return array_of(dtype, *shape)


def compare(name, method, *args, **kwargs):
    """Our result against NumPy's values and JAX's dtype."""
    mine = getattr(getattr(qnp, name), method)(
        *[qnp.asarray(a) if isinstance(a, np.ndarray) else a for a in args], **kwargs
    )
    want = getattr(getattr(np, name), method)(*args, **kwargs)
    dtype = jax.eval_shape(lambda: getattr(getattr(jnp, name), method)(*args, **kwargs)).dtype
    difference = same(mine, np.asarray(want).astype(dtype), rtol=2e-6)
    assert not difference, f"{name}.{method}{args}, {kwargs}: {difference}"


@pytest.mark.parametrize("name", NAMES)
def test_facts(name):
    u, want = getattr(qnp, name), getattr(jnp, name)
    assert isinstance(u, qnp.ufunc) and repr(u) == f"<quire.numpy.ufunc '{name}'>"
    assert (u.nin, u.nout, u.nargs, u.identity) == (want.nin, want.nout, want.nargs, want.identity)
    assert u.__doc__ and ">>>" in u.__doc__ and u.__name__ == name
    assert list(inspect.signature(u).parameters)[-2:] == ["out", "where"]
    assert pickle.loads(pickle.dumps(u)) is u and hash(u) == hash(pickle.loads(pickle.dumps(u)))
    for method in ("reduce", "accumulate", "reduceat", "outer", "at"):
        mine = list(inspect.signature(getattr(qnp.ufunc, method)).parameters.items())
        assert [(k, p.kind, p.default) for k, p in mine] == [
            (k, p.kind, p.default) for k, p in inspect.signature(getattr(jnp.ufunc, method)).parameters.items()
        ]


def test_every_ufunc_of_jax_is_one():
    assert [n for n in dir(qnp) if isinstance(getattr(qnp, n), qnp.ufunc)] == NAMES


@pytest.mark.parametrize("name", BINARY)
def test_reduce(name):
    if name == "subtract":  # a loop, compiled for each shape
        compare(name, "reduce", operand(name, 3, 4), 1)
        return
    x = operand(name, 3, 4)
    for axis in (0, 1, -1, None):
        compare(name, "reduce", x, axis)
    compare(name, "reduce", x, 1, keepdims=True)
    mask, start = operand("logical_or", 3, 4), x.dtype.type(1)
    compare(name, "reduce", x, 0, initial=start, where=mask)
    if getattr(jnp, name).identity is not None:
        compare(name, "reduce", x[:0], 0)


@pytest.mark.parametrize("name", BINARY)
def test_accumulate(name):
    x = operand(name, 3, 4)
    compare(name, "accumulate", x, 1)
    if name != "subtract":
        compare(name, "accumulate", x)


@pytest.mark.parametrize("name", BINARY)
def test_outer(name):
    compare(name, "outer", operand(name, 3, 1), operand(name, 4))


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum", "logaddexp"])
def test_reduceat(name):
    x = operand(name, 6, 2)
    compare(name, "reduceat", x, np.array([0, 2, 5]))
    if name in ("add", "logaddexp"):
        compare(name, "reduceat", x, np.array([4, 1, 1, 3]))
    else:
        compare(name, "reduceat", x, np.array([1, 3, 4]), axis=0)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(
    "index", [1, np.array([0, 2, 0, 1, 0]), (slice(None), 1), (np.array([[0], [2]]), np.array([1, 1]))], ids=str
)
def test_at(name, index):
    x = operand(name, 3, 4)
    b = operand(name, *x[index].shape) if x[index].ndim > 1 else operand(name, 1)[0]
    want = x.copy()
    getattr(np, name).at(want, index, b)
    asarray = lambda i: qnp.asarray(i) if isinstance(i, np.ndarray) else i  # noqa: E731
    mine = tuple(map(asarray, index)) if isinstance(index, tuple) else asarray(index)
    got = getattr(qnp, name).at(qnp.asarray(x), mine, qnp.asarray(b), inplace=False)
    assert not same(got, want, rtol=2e-6)


def test_at_of_a_unary_function_and_of_a_mask():
    x = array_of("int32", 5)
    want = x.copy()
    np.negative.at(want, np.array([0, 3, 0]))
    assert not same(qnp.negative.at(qnp.asarray(x), qnp.array([0, 3, 0]), inplace=False), want)
    np.bitwise_xor.at(want, x > 0, 3)
    got = qnp.bitwise_xor.at(
        qnp.negative.at(qnp.asarray(x), qnp.array([0, 3, 0]), inplace=False), qnp.asarray(x > 0), 3, inplace=False
    )
    assert not same(got, want)


def test_dtypes():
    x = array_of("int8", 3)
    assert qnp.add.reduce(qnp.asarray(x)).dtype == jnp.add.reduce(x).dtype == np.int32
    assert qnp.add.reduce(qnp.asarray(x), dtype="float32").dtype == np.float32
    assert qnp.logical_and.reduce(qnp.asarray(x)).dtype == bool
    assert qnp.maximum.at(qnp.asarray(x), 0, 2.5, inplace=False).dtype == np.float32


def test_frompyfunc():
    f = qnp.frompyfunc(lambda x, y: x * y + 1, 2, 1, identity=0)
    x = qnp.arange(1.0, 5.0)
    assert (f.nin, f.nout, f.nargs, f.identity) == (2, 1, 2, 0)
    assert not same(f(x[:, None], x), np.multiply.outer(np.arange(1, 5), np.arange(1, 5)).astype("float32") + 1)
    assert not same(f.outer(x, x), np.asarray(f(x[:, None], x)))
    want = [1.0, 3.0, 10.0, 41.0]
    assert not same(f.accumulate(x), np.array(want, np.float32))
    assert f.reduce(x).item() == 41.0  # begins with the identity: 0 * 1 + 1
    both = qnp.frompyfunc(lambda x, y: (x + y, x - y), 2, 2)
    assert [v.tolist() for v in both(x, 1.0)] == [[2.0, 3.0, 4.0, 5.0], [0.0, 1.0, 2.0, 3.0]]


@pytest.fixture(scope="module")
def compiled():
    @quire.jit
    def everything(x, i, indices):
        return {
            "reduce": qnp.subtract.reduce(x, 1),
            "accumulate": qnp.subtract.accumulate(x, 0),
            "at": qnp.subtract.at(x, i, 2.0, inplace=False),
            "xor": qnp.bitwise_xor.at(i, i, 3, inplace=False),
            "reduceat": qnp.maximum.reduceat(x, indices, 1),
            "logaddexp": qnp.logaddexp.reduce(x, 0),
            "outer": qnp.multiply.outer(x[0], x[1]),
        }

    return everything(ARGS[0], ARGS[1], ARGS[2])


ARGS = array_of("float32", 3, 4), np.array([2, 0, 2], np.int32), np.array([1, 3, 0], np.int32)


@pytest.mark.parametrize("what", ["reduce", "accumulate", "at", "xor", "reduceat", "logaddexp", "outer"])
def test_compiled(compiled, what):
    x, i, indices = ARGS
    at, xor = x.copy(), i.copy()
    np.subtract.at(at, i, 2.0)
    np.bitwise_xor.at(xor, i, 3)
    want = {
        "reduce": lambda: np.subtract.reduce(x, 1),
        "accumulate": lambda: np.subtract.accumulate(x, 0),
        "at": lambda: at,
        "xor": lambda: xor,
        "reduceat": lambda: np.maximum.reduceat(x, indices, 1),
        "logaddexp": lambda: np.logaddexp.reduce(x, 0),
        "outer": lambda: np.multiply.outer(x[0], x[1]),
    }[what]()
    assert not same(compiled[what], want, rtol=2e-6)


def test_derivatives():
    x = qnp.array([0.5, 1.5, -1.0])
    gradient = quire.grad(lambda x: qnp.logaddexp.reduce(x))(x)
    assert np.allclose(gradient, np.exp(x) / np.exp(np.asarray(x)).sum(), rtol=1e-5)
    assert quire.grad(lambda x: qnp.multiply.reduce(x))(x).tolist() == [-1.5, -0.5, 0.75]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda x: qnp.add.at(x, 0, 1),
            NotImplementedError,
            "quire.numpy.add.at: arrays are immutable: give inplace=False",
        ),
        (lambda x: qnp.add.at(x, 0, inplace=False), ValueError, "quire.numpy.add.at: add takes 2 arguments, got 1"),
        (lambda x: qnp.negative.reduce(x), ValueError, "quire.numpy.negative.reduce: only binary ufuncs have reduce"),
        (
            lambda x: qnp.frompyfunc(lambda a, b: (a, b), 2, 2).outer(x, x),
            ValueError,
            "only ufuncs with one result have outer",
        ),
        (lambda x: qnp.maximum.reduce(x, where=x > 0), ValueError, "quire.numpy.maximum.reduce: .*initial"),
        (lambda x: qnp.add.reduce(x, where=x), ValueError, "quire.numpy.add.reduce: where must be boolean, got f32"),
        (
            lambda x: qnp.subtract.reduce(x[:0]),
            ValueError,
            "quire.numpy.subtract.reduce: zero-size array .*give initial",
        ),
        (
            lambda x: qnp.add.accumulate(x, axis=None),
            ValueError,
            "quire.numpy.add.accumulate: axis must be one integer",
        ),
        (
            lambda x: qnp.add.reduceat(x, qnp.ones((1, 1), int)),
            ValueError,
            "quire.numpy.add.reduceat: indices must be a vector",
        ),
        (lambda x: qnp.add.reduceat(x[0], qnp.ones(1, int)), ValueError, "quire.numpy.add.reduceat: needs an array"),
        (lambda x: qnp.add(x, x, out=x), NotImplementedError, "quire.numpy.add: the 'out' argument"),
        (
            lambda x: qnp.add(x, x, where=x > 0),
            NotImplementedError,
            "quire.numpy.add: the 'where' argument .*choose with",
        ),
        (lambda x: qnp.frompyfunc(lambda a: a, 1, 1)(x, x), TypeError, "takes 1 arguments, got 2"),
        (lambda x: qnp.add.reduce([1, 2]), TypeError, "quire.numpy.add.reduce: .*list"),
        (lambda x: qnp.bitwise_or.reduce(x), TypeError, "quire.numpy.bitwise_or.reduce: .*f32"),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call(qnp.ones(3))


def test_the_object_adds_one_call():
    """Operators call the function itself; calling the object adds nothing but its own frame."""
    x = qnp.ones(2)

    def calls(f):
        """How many Python functions a call enters."""
        entered = []
        f(x, x)
        sys.setprofile(lambda frame, event, _: entered.append(frame.f_code.co_name) if event == "call" else None)
        try:
            f(x, x)
        finally:
            sys.setprofile(None)
        return len(entered)

    assert calls(qnp.add) == calls(qnp.add.func) + 1
