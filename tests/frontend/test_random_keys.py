"""Typed keys: arrays of dtype key<fry> that behave as arrays wherever elements are only moved."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import jax
import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire import random as qr
from quire.arrays.key_array import KeyDType
from quire.dtypes import extended, prng_key

jr = jax.random


def words(keys: Any) -> np.ndarray[Any, Any]:
    return np.asarray(qr.key_data(keys))


def same(got: Any, want: Any) -> None:
    """Keys of quire and keys of JAX."""
    assert got.dtype == qr.key_dtype() and got.shape == want.shape
    np.testing.assert_array_equal(words(got), np.asarray(jr.key_data(want)))


MOVES = {
    "index": lambda r, n, k: k[1],
    "index last": lambda r, n, k: k[..., 0],
    "index pair": lambda r, n, k: k[1, 2],
    "index slice": lambda r, n, k: k[:, 1:],
    "index new": lambda r, n, k: k[None, :, 0],
    "index array": lambda r, n, k: k[np.array([1, 0, 1])],
    "index mask": lambda r, n, k: k[np.array([True, False])],
    "reshape": lambda r, n, k: k.reshape(3, 2),
    "ravel": lambda r, n, k: k.ravel(),
    "T": lambda r, n, k: k.T,
    "reshape function": lambda r, n, k: n.reshape(k, (-1,)),
    "stack": lambda r, n, k: n.stack([k[0], k[1]], axis=1),
    "stack last": lambda r, n, k: n.stack([k, k], axis=-1),
    "concatenate": lambda r, n, k: n.concatenate([k, k], axis=1),
    "where": lambda r, n, k: n.where(np.array([True, False, True]), k, k[::-1]),
    "broadcast_to": lambda r, n, k: n.broadcast_to(k[0], (4, 3)),
    "expand_dims": lambda r, n, k: n.expand_dims(k, -1),
    "squeeze": lambda r, n, k: n.squeeze(k[:, :1], -1),
    "take": lambda r, n, k: n.take(k, np.array([2, 0]), axis=-1),
    "roll": lambda r, n, k: n.roll(k, 1, axis=1),
    "moveaxis": lambda r, n, k: n.moveaxis(k, 0, -1),
    "array": lambda r, n, k: n.array([k[0, 0], k[1, 1]]),
    "asarray": lambda r, n, k: n.asarray(k),
    "full": lambda r, n, k: n.full((2,), k[0, 0]),
    "at set": lambda r, n, k: k.at[0, 1].set(k[1, 1]),
    "iterate": lambda r, n, k: n.stack(list(k)[::-1]),
    "split shape": lambda r, n, k: r.split(k[0, 0], (2, 3)),
    "fold_in": lambda r, n, k: r.fold_in(k[0, 0], 3),
    "wrap": lambda r, n, k: r.wrap_key_data(r.key_data(k)),
    "clone": lambda r, n, k: r.clone(k),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves_like_jax(name: str) -> None:
    f = MOVES[name]
    same(f(qr, qnp, qr.split(qr.key(3), (2, 3))), f(jr, jax.numpy, jr.split(jr.key(3), (2, 3))))


def test_facts() -> None:
    k = qr.split(qr.key(0), (2, 3))
    assert (k.shape, k.ndim, k.size, k.itemsize, k.nbytes, len(k)) == ((2, 3), 2, 6, 8, 48, 2)
    assert str(k.dtype) == "key<fry>" and k.dtype == qr.key_dtype() == qr.key(1).dtype and hash(k.dtype)
    assert (
        quire.dtypes.issubdtype(k.dtype, prng_key)
        and qnp.issubdtype(k.dtype, prng_key)
        and qnp.issubdtype(k.dtype, extended)
    )
    assert not qnp.issubdtype(k.dtype, np.integer) and not qnp.issubdtype(np.uint32, prng_key)
    assert qnp.issubdtype(prng_key, extended) and qnp.issubdtype(k.dtype, qr.key_dtype())
    assert qr.key_impl(k) == "threefry2x32" and qr.key(0, dtype=qr.key_dtype()) == qr.key(0, impl="threefry2x32")
    assert bool((k == k).all()) and not bool((k != k).any()) and bool((k[0, 0] == k).sum() == 1)
    assert k.block_until_ready() is k and qnp.shape(k) == (2, 3) and qnp.ndim(k) == 2
    assert repr(qr.key(5)) == "Array((), dtype=key<fry>) overlaying:\n[0 5]"
    assert bool(copy.deepcopy(k)[1, 1] == k[1, 1]) and bool((pickle.loads(pickle.dumps(k)) == k).all())


def test_pytrees() -> None:
    """For users a key is a leaf."""
    k = qr.key(0)
    tree = {"a": k, "b": (qr.key(1), 2)}
    leaves, treedef = quire.tree_util.tree_flatten(tree)
    assert leaves[0] is k and leaves[2] == 2
    assert treedef.unflatten(leaves)["a"] is k
    drawn = quire.tree_util.tree_map(lambda key, n: qr.uniform(key, (n,)), {"a": k}, {"a": 3})
    assert drawn["a"].shape == (3,)


def test_transformations() -> None:
    keys = qr.split(qr.key(1), 4)
    want = np.stack([np.asarray(qr.normal(k, (2,))) for k in keys])
    np.testing.assert_array_equal(quire.vmap(lambda k: qr.normal(k, (2,)))(keys), want)
    grid = keys.reshape(2, 2)
    out = quire.vmap(quire.vmap(lambda k: qr.normal(k, (2,))), in_axes=-1, out_axes=-2)(grid)
    np.testing.assert_array_equal(out, want.reshape(2, 2, 2))
    split = quire.vmap(lambda k: qr.split(k, 3), out_axes=-1)(keys)
    assert split.shape == (3, 4) and split.dtype == keys.dtype
    np.testing.assert_array_equal(words(split[:, 1]), words(qr.split(keys[1], 3)))

    def loss(w: Any, k: Any) -> Any:
        return (w * qr.normal(k, (3,))).sum()

    np.testing.assert_allclose(quire.grad(loss)(qnp.ones(3), keys[0]), qr.normal(keys[0], (3,)))
    value, pull = quire.vjp(loss, qnp.ones(3), keys[0])
    assert pull(qnp.ones_like(value))[1].dtype == jax.dtypes.float0 and pull(value)[1].shape == ()
    _, (a, b) = quire.jvp(lambda w: (w * 2, keys[0]), (1.0,), (1.0,))
    assert float(a) == 2.0 and b.shape == ()


def test_loops() -> None:
    """Keys as carries, rows and results of scan, while_loop, fori_loop, cond, switch, map, checkpoint."""

    def step(r: Any, l: Any, n: Any) -> Any:
        def f(key: Any, x: Any) -> Any:
            key, now = r.split(key)
            return key, (r.uniform(now) + x, now)

        return l.scan(f, r.key(0), n.arange(3.0))

    key, (values, keys) = step(qr, lax, qnp)
    jkey, (jvalues, jkeys) = step(jr, jax.lax, jax.numpy)
    same(key, jkey)
    same(keys, jkeys)
    np.testing.assert_array_equal(values, jvalues)
    two = qr.split(key)
    folded = jax.lax.fori_loop(0, 3, lambda i, k: jr.fold_in(k, i), jkey)
    same(lax.fori_loop(0, 3, lambda i, k: qr.fold_in(k, i), key), folded)
    assert bool(lax.cond(True, lambda k: k[0], lambda k: k[1], two) == two[0])
    assert bool(lax.switch(1, [lambda k: k[0], lambda k: k[1]], two) == two[1])
    np.testing.assert_array_equal(lax.map(qr.uniform, two), quire.vmap(qr.uniform)(two))
    out = lax.while_loop(lambda c: c[1] < 2, lambda c: (qr.split(c[0])[0], c[1] + 1), (key, 0))
    assert bool(out[0] == qr.split(qr.split(key)[0])[0])
    np.testing.assert_array_equal(quire.checkpoint(lambda k: qr.uniform(k))(key), qr.uniform(key))


def test_compiled() -> None:
    """One program with keys as arguments, results, and in containers; called through the quick path as well."""

    @quire.jit
    def f(state: Any) -> Any:
        key, now = qr.split(state["key"])
        noise = quire.vmap(qr.uniform)(qr.split(now, 3))
        return {"key": key, "x": state["x"] + noise, "same": state["key"]}

    state: Any = {"key": qr.key(7), "x": qnp.zeros(3)}
    for _ in range(4):
        want_key, now = qr.split(state["key"])
        want = np.asarray(state["x"]) + np.asarray(quire.vmap(qr.uniform)(qr.split(now, 3)))
        out = f(state)
        assert bool(out["same"] == state["key"]) and bool(out["key"] == want_key) and out["key"].shape == ()
        np.testing.assert_array_equal(out["x"], want)
        state = {"key": out["key"], "x": out["x"]}
    assert len(f.variants()) == 1
    assert "key" not in str(f.trace(state).jaxpr).replace("state['key']", "")  # the IR has numbers only


def test_shapes_without_values() -> None:
    out = quire.eval_shape(lambda k: (k, qr.split(k, (2, 3)), qr.normal(k, (4,))), qr.key(0))
    assert [x.shape for x in out] == [(), (2, 3), (4,)] and out[1].dtype == qr.key_dtype()
    assert repr(out[1]) == "ShapeDtypeStruct(shape=(2,3), dtype=key<fry>)"
    struct = quire.ShapeDtypeStruct((5,), qr.key_dtype())
    assert struct.shape == (5,) and quire.eval_shape(quire.vmap(qr.uniform), struct).shape == (5,)
    assert isinstance(quire.device_put(qr.key(0)).dtype, KeyDType)
    assert qr.key_data(quire.device_get(qr.key(3))).tolist() == [0, 3]


K = qr.key(0)


@pytest.mark.parametrize(
    "f, error, message",
    [
        (lambda: K + 1, TypeError, "add does not accept dtypes key<fry>, int32: keys are used by quire.random only"),
        (lambda: 2 * K, TypeError, "mul does not accept dtypes key<fry>, int32"),
        (lambda: qnp.ones(3) * K, TypeError, "mul does not accept dtypes key<fry>, float32"),
        (lambda: K < K, TypeError, "lt does not accept dtypes key<fry>, key<fry>"),
        (lambda: -K, TypeError, "neg does not accept dtypes key<fry>"),
        (lambda: float(K), TypeError, "float does not accept dtypes key<fry>"),
        (lambda: bool(K), TypeError, "key array cannot be converted to boolean"),
        (lambda: hash(K), TypeError, "unhashable type: 'PRNGKeyArray'"),
        (lambda: len(K), TypeError, "len\\(\\) of unsized object"),
        (lambda: list(K), TypeError, "iteration over a 0-d key array"),
        (lambda: K[0], IndexError, "Too many indices: array of keys is 0-dimensional, but 1 were indexed"),
        (lambda: np.asarray(K), TypeError, "cannot be converted to a NumPy array: use quire.random.key_data"),
        (lambda: K.sum(), AttributeError, "an array of keys .* has no attribute 'sum'"),
        (lambda: K.astype(np.uint32), TypeError, "has no conversion to <class 'numpy.uint32'>"),
        (lambda: qnp.add(K, 1), TypeError, "quire.numpy.add: does not accept dtype key<fry> at position 0"),
        (lambda: qnp.sin(K), TypeError, "quire.numpy.sin: does not accept dtype key<fry>"),
        (lambda: lax.add(K, K), TypeError, "is not an array: it is an array of keys"),
        (lambda: qnp.stack([K, qr.PRNGKey(0)]), TypeError, "keys mix with keys of the same generator only, got dtypes key<fry>, uint32"),
        (lambda: qr.split(K).at[0].set(1), TypeError, "the values must be keys, got int32"),
        (lambda: qr.uniform(qr.split(K)), ValueError,
         r"uniform: takes a single key, got an array of keys of shape \(2,\): use quire.vmap"),
        (lambda: qr.split(qr.split(K)), ValueError, "split: takes a single key"),
        (lambda: qr.fold_in(qr.split(K), 1), ValueError, "fold_in: takes a single key"),
        (lambda: qr.fold_in(K, 1.5), TypeError, "fold_in: data must be an integer scalar, got f32"),
        (lambda: qr.fold_in(K, -1), OverflowError, r"fold_in: data must be from 0 to 2\*\*32 - 1, got -1: 4294967295 would give"),
        (lambda: qr.randint(K, (), 0, 2**32), OverflowError,
         "randint: maxval 4294967296 must be from -2147483648 to 2147483648 for dtype int32"),
        (lambda: qr.randint(K, (), -(2**40), 0, "uint8"), OverflowError, "randint: minval -1099511627776 must be from -2147483648 to"),
        (lambda: qr.uniform(3), TypeError, r"uniform: expected a key .* got i32\[\]"),
        (lambda: qr.uniform("a"), TypeError, "uniform: expected a key .* got str"),
        (lambda: qr.key(K), TypeError, "key: the seed must be an integer, got a key"),
        (lambda: qr.key(np.arange(3)), TypeError, r"key: the seed must be a scalar, got i32\[3\]: use quire.vmap"),
        (lambda: qr.key(0, impl="philox"), ValueError, "key: unknown generator 'philox', expected one of 'threefry2x32', 'rbg', 'unsafe_rbg'"),
        (lambda: qr.wrap_key_data(np.zeros((3, 3), np.uint32)), TypeError,
         r"wrap_key_data: expected keys, or their words: uint32 with a last dimension of 2, got u32\[3,3\]"),
        (lambda: qr.wrap_key_data(np.zeros((3, 2), np.int32)), TypeError, r"got i32\[3,2\]"),
        (lambda: qr.wrap_key_data(K), TypeError, "expected the words of keys"),
        (lambda: qr.wrap_key_data(qr.key_data(K), impl="threefry2x32", dtype=K.dtype), ValueError,
         "wrap_key_data: give impl or dtype, not both"),
        (lambda: qr.key_data(np.zeros(2)), TypeError, r"key_data: expected keys, .* got f32\[2\]"),
        (lambda: quire.grad(lambda k: 1.0)(K), TypeError, "grad requires real"),
    ],
)  # fmt: skip
def test_errors(f: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        f()


GENERATORS = {
    "key data": lambda r, k: r.key_data(k),
    "split": lambda r, k: r.key_data(r.split(k, 3)),
    "split to a shape": lambda r, k: r.key_data(r.split(k, (2, 2))),
    "fold_in": lambda r, k: r.key_data(r.fold_in(k, 3)),
    "bits": lambda r, k: r.bits(k, (5,)),
    "bits of a byte": lambda r, k: r.bits(k, (5,), "uint8"),
    "normal": lambda r, k: r.normal(k, (4,)),
    "gamma": lambda r, k: r.gamma(k, 2.0, (3,)),
    "permutation": lambda r, k: r.permutation(k, 6),
    "choice": lambda r, k: r.choice(k, 7, (3,), replace=False),
    "a key's name and dtype": lambda r, k: np.frombuffer(f"{r.key_impl(k)} {k.dtype}".encode(), np.uint8),
}


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_keys_of_the_other_generators(impl):
    jax = pytest.importorskip("jax")

    def values(q):
        r = q.random
        k = r.split(r.key(7, impl=impl), 2)[1]
        out = {name: np.asarray(f(r, k)) for name, f in GENERATORS.items()}
        out["compiled"] = np.asarray(q.jit(lambda k: r.uniform(r.split(k)[1], (2,)))(k))
        out["mapped"] = np.asarray(q.vmap(lambda i: r.key_data(r.fold_in(k, i)))(q.numpy.arange(2)))
        out["filled"] = np.asarray(r.key_data(q.numpy.full((2,), k, dtype=k.dtype)))
        with q.default_prng_impl(impl):
            raw = r.PRNGKey(5)
            out["raw"], out["raw, split"] = np.asarray(raw), np.asarray(r.split(raw))
            out["raw, used"] = np.asarray(r.uniform(raw, (2,)))
        return out

    got, want = values(quire), values(jax)
    for name, w in want.items():
        assert (got[name].shape, got[name].dtype) == (w.shape, w.dtype), name
        np.testing.assert_allclose(got[name], w, rtol=2e-6, err_msg=name)


def _by_reference(q, k):
    ref = q.new_ref(k)
    ref[...] = q.random.split(ref[...])[0]
    return ref[...]


def _in_a_loop(q, k):
    ref = q.new_ref(k)

    def body(i, c):
        ref[...] = q.random.split(ref[...])[0]
        return c + i

    q.lax.fori_loop(0, 2, body, 0)
    return ref[...]


WAYS = {
    "tree under jit": lambda q, k: q.jit(lambda t: {"a": t[0], "b": (t[1]["x"],)})((k, {"x": k}))["b"][0],
    "jit of jit": lambda q, k: q.jit(lambda k: q.random.split(k)[0])(q.jit(lambda k: q.random.split(k)[1])(k)),
    "constant of jit": lambda q, k: q.jit(lambda: k)(),
    "vmap": lambda q, k: q.vmap(lambda k: q.random.fold_in(k, 1))(q.random.split(k, 3)),
    "vmap of what makes keys": lambda q, k: q.vmap(lambda i: q.random.fold_in(k, i))(np.arange(3)),
    "vmap to another axis": lambda q, k: q.vmap(lambda k: k, out_axes=1)(q.random.split(k, (3, 2))),
    "map": lambda q, k: q.lax.map(lambda k: q.random.split(k)[0], q.random.split(k, 3)),
    "scan": lambda q, k: q.lax.scan(lambda c, _: tuple(q.random.split(c)), k, None, length=3)[1],
    "while": lambda q, k: q.lax.while_loop(lambda c: c[1] < 3, lambda c: (q.random.split(c[0])[0], c[1] + 1), (k, 0))[
        0
    ],
    "cond": lambda q, k: q.lax.cond(True, lambda k: q.random.split(k)[0], lambda k: k, k),
    "select": lambda q, k: q.lax.select(np.array([True, False]), q.random.split(k), q.random.split(k)),
    "where": lambda q, k: q.numpy.where(np.array([True, False]), q.random.split(k), q.random.split(k)),
    "stack": lambda q, k: q.numpy.stack([k, k]),
    "concatenate": lambda q, k: q.jit(lambda k: q.numpy.concatenate([k, k]))(q.random.split(k)),
    "reshape": lambda q, k: q.random.split(k, 4).reshape(2, 2).T,
    "index": lambda q, k: q.random.split(k, 4)[np.array([1, 2])],
    "update": lambda q, k: q.random.split(k, 4).at[1].set(k),
    "roll": lambda q, k: q.numpy.roll(q.random.split(k, 4), 1),
    "reference": _by_reference,
    "reference under jit": lambda q, k: q.jit(lambda k: _by_reference(q, k))(k),
    "reference in a loop": lambda q, k: q.jit(lambda k: _in_a_loop(q, k))(k),
    "freeze": lambda q, k: q.freeze(q.new_ref(q.random.split(k))),
    "checkpoint": lambda q, k: q.checkpoint(lambda k: q.random.split(k)[0])(k),
    "aux of grad": lambda q, k: q.grad(lambda x: (x * q.random.uniform(k), q.random.split(k)[0]), has_aux=True)(1.0)[1],
    "vjp": lambda q, k: q.vjp(lambda x: (x, q.random.split(k)[0]), 1.0)[0][1],
    "jvp": lambda q, k: q.jvp(lambda x: (x, q.random.split(k)[0]), (1.0,), (1.0,))[0][1],
    "pmap": lambda q, k: q.pmap(lambda k: q.random.split(k)[0])(q.random.split(k, 1)),
    "device_put": lambda q, k: q.device_put(k),
    "raw and back": lambda q, k: q.random.wrap_key_data(q.random.key_data(k), impl=q.random.key_impl(k)),
    "full_like": lambda q, k: q.numpy.full_like(q.random.split(k, 3), k),
    "take": lambda q, k: q.numpy.take(q.random.split(k, 4), np.array([0, 1]), axis=0),
    "choice": lambda q, k: q.random.choice(k, q.random.split(k, 3), (2,)),
}


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_keys_keep_their_generator_whatever_they_pass_through(impl):
    """`rbg` and `unsafe_rbg` have as many words: what takes one for the other gives other numbers without a word."""
    jax = pytest.importorskip("jax")
    for name, f in WAYS.items():
        got, want = f(quire, qr.key(3, impl=impl)), f(jax, jax.random.key(3, impl=impl))
        assert (str(got.dtype), got.shape) == (str(want.dtype), want.shape), name
        np.testing.assert_array_equal(qr.key_data(got), jax.random.key_data(want), err_msg=name)


def test_one_function_called_with_keys_of_each_generator():
    @quire.jit
    def f(k):
        return k, {"u": qr.split(k)}

    order = ("rbg", "unsafe_rbg", "threefry2x32", "rbg", "unsafe_rbg")
    for impl in order * 2:
        same, made = f(qr.key(1, impl=impl))
        want = qr.split(qr.key(1, impl=impl))
        assert same.dtype == made["u"].dtype == want.dtype
        np.testing.assert_array_equal(qr.key_data(made["u"]), qr.key_data(want))


def test_permutations_of_keys():
    keys = qr.split(qr.key(0), 5)
    order = np.asarray(qr.permutation(qr.key(1), 5))
    np.testing.assert_array_equal(qr.key_data(qr.permutation(qr.key(1), keys)), np.asarray(qr.key_data(keys))[order])
    some = qr.choice(qr.key(1), keys, (2,), replace=False)
    np.testing.assert_array_equal(qr.key_data(some), np.asarray(qr.key_data(keys))[order[:2]])
    with pytest.raises(TypeError, match="in one order for all, got key<fry>.* and independent=True"):
        qr.permutation(K, keys.reshape(5, 1), independent=True)
    with pytest.raises(TypeError, match="expected an integer or an array of at least one dimension, got one key"):
        qr.choice(K, K)
