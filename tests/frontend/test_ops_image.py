"""quire.ops and quire.image against jax.ops, jax.image and NumPy."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import image, ops

jax = pytest.importorskip("jax")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 7, 5)).astype(np.float32)
SCALE, MOVE = np.array([0.9, 1.3], np.float32), np.array([0.3, -0.6], np.float32)
METHODS = ("nearest", "linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5", "area")
IDS = np.array([2, 0, 2, -1, 5, 2, 3], np.int32)
DATA = RNG.normal(size=(7, 2)).astype(np.float32)


def same(got, want, rtol=2e-4, atol=3e-5):
    got, want = jax.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(want)
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        assert (g.shape, g.dtype) == (w.shape, w.dtype), i
        loose = 10 if w.dtype == np.float16 else 1
        np.testing.assert_allclose(g, w, rtol=loose * rtol, atol=loose * atol, err_msg=str(i))


# -- segments -----------------------------------------------------------------------------------------------------------------


def segments(m, data, ids):
    out = {}
    for name in ("segment_sum", "segment_prod", "segment_max", "segment_min"):
        f = getattr(m.ops, name)
        out[name] = [
            f(data, ids, 5), f(data, ids, 4, bucket_size=3), f(data.astype(np.int32), ids, num_segments=4),
            f(data, ids, 4, mode="clip"), f(data[0, 0], ids, 4), f(data[:1], ids, 4),
        ]  # fmt: skip
        if name == "segment_prod":
            continue  # JAX has no derivative of products with repeated segments
        out[name + " gradient"] = m.grad(
            lambda x, f=f: (m.numpy.where(abs(f(x, ids, 4)) < 9, f(x, ids, 4), 0) ** 2).sum()
        )(data)
    return out


def test_segments():
    eager = segments(quire, DATA, IDS)
    same(eager, jax.jit(functools.partial(segments, jax))(DATA, IDS))
    same(quire.compile(functools.partial(segments, quire))(DATA, IDS), eager)
    for name, want in (
        ("sum", [1, 0, 1]),
        ("prod", [1, 1, 0]),
        ("max", [1, 0, 1]),
        ("min", [1, 1, 0]),
    ):  # bool: or, and
        got = getattr(ops, "segment_" + name)(np.array([1, 1, 0], bool), np.array([0, 2, 2]), 3)
        np.testing.assert_array_equal(got, np.array(want, bool))
    squares = ops.segment_sum(DATA[:6], np.array([[0, 1], [1, 1], [0, 0], [2, 2], [0, 1], [1, 0]]), 3)
    np.testing.assert_allclose(squares.sum(), DATA[:6].sum(), rtol=1e-5)  # a segment for each element
    by_hand = np.zeros((6, 2), np.float32)
    np.add.at(by_hand, IDS[IDS >= 0], DATA[IDS >= 0])
    np.testing.assert_allclose(ops.segment_sum(DATA, IDS), by_hand, rtol=1e-6)
    rows = quire.vmap(lambda d: ops.segment_max(d, IDS, 4), in_axes=1, out_axes=1)(DATA)
    np.testing.assert_array_equal(rows, ops.segment_max(DATA, IDS, 4))
    assert ops.segment_sum(np.zeros((0, 2), np.float32), np.zeros(0, np.int32)).shape == (0, 2)


# -- images -------------------------------------------------------------------------------------------------------------------


def images(m, methods, x, scale, move):
    out = []
    for method in methods:
        for shape, antialias in (((3, 4, 9), True), ((3, 7, 2), True), ((3, 7, 2), False)):
            out.append(m.image.resize(x, shape, method, antialias=antialias))
        if method == "nearest":
            continue

        def f(x, s, t, method=method):
            return m.image.scale_and_translate(x, (3, 6, 6), (1, 2), s, t, method, antialias=method != "cubic-pytorch")

        def loss(x, s, t, f=f):
            return (f(x, s, t) ** 2).sum()

        out.append(f(x, scale, move))
        if method != "linear":  # JAX compiles each for long
            out.append(m.grad(loss)(x, scale, move))
        else:
            out.append(m.grad(loss, argnums=(0, 1, 2))(x, scale, move))
    numbers = np.arange(6, dtype=np.int32).reshape(2, 3)
    out += [m.image.resize(numbers, (4, 2), "nearest"), m.image.resize(numbers, (4, 2), m.image.ResizeMethod.LINEAR)]
    return [*out, m.image.resize(x.astype(np.float16), (3, 3, 3), "cubic")]


def test_images():
    data = (X, SCALE, MOVE)
    same(images(quire, METHODS, *data), jax.jit(functools.partial(images, jax, METHODS))(*data))


def test_doubles_are_resized_in_double_precision():
    with quire.enable_x64(True):
        x = np.arange(5.0) ** 2
        want = np.interp((np.arange(9) + 0.5) * 5 / 9 - 0.5, np.arange(5.0), x)
        np.testing.assert_allclose(image.resize(x, (9,), "linear"), want, rtol=1e-14)
        with jax.enable_x64(True):
            for method in METHODS[1:]:
                np.testing.assert_allclose(
                    image.resize(x, (7,), method),
                    jax.image.resize(x, (7,), method, antialias=True),
                    rtol=1e-13,
                    err_msg=method,
                )


def test_images_compiled():
    data, methods = (X, SCALE, MOVE), ("nearest", "linear", "cubic-pytorch", "area")
    same(quire.compile(functools.partial(images, quire, methods))(*data), images(quire, methods, *data))
    rows = quire.vmap(lambda x: image.resize(x, (4, 9), "cubic"))(X)
    np.testing.assert_allclose(rows, image.resize(X, (3, 4, 9), "cubic"), rtol=1e-5, atol=1e-6)


def test_gradient_by_the_scale():
    """Of known and of traced numbers alike."""

    def loss(s, t):
        return (image.scale_and_translate(X, (3, 6, 6), (1, 2), s, t, "cubic") ** 2).sum()

    gradient, h = quire.grad(loss)(SCALE, MOVE), 1e-3
    for i, e in enumerate(np.eye(2, dtype=np.float32)):
        slope = (loss(SCALE + h * e, MOVE) - loss(SCALE - h * e, MOVE)) / (2 * h)
        np.testing.assert_allclose(gradient[i], slope, rtol=1e-2)


def test_every_name_of_jax_is_there():
    for ours, theirs in ((ops, jax.ops), (image, jax.image)):
        assert all(getattr(ours, n).__doc__ for n in dir(theirs) if not n.startswith("_"))


ONE = np.ones(1, np.float32)
ERRORS = [
    (lambda: ops.segment_sum([1.0], IDS), TypeError, r"quire\.ops\.segment_sum: data must be an array or a number, got list"),
    (lambda: ops.segment_max(DATA, DATA), TypeError, r"quire\.ops\.segment_max: segment_ids must be integers, got f32\[7,2\]"),
    (lambda: ops.segment_min(DATA, IDS[:3]), ValueError, r"segment_ids i32\[3\] must have the first dimensions of data f32\[7,2\]"),
    (lambda: ops.segment_sum(DATA, IDS, -1), ValueError, r"num_segments must not be negative, got -1"),
    (lambda: ops.segment_sum(DATA, IDS, 2.5), TypeError, r"num_segments must be an integer, got 2\.5"),
    (lambda: ops.segment_sum(DATA, IDS, 2, bucket_size=0), ValueError, r"bucket_size 0 must be positive"),
    (lambda: ops.segment_prod(DATA, IDS, 2, out_sharding=1), TypeError, r"segment_prod: out_sharding: expected a sharding"),
    (lambda: quire.compile(lambda i: ops.segment_sum(DATA, i))(IDS), quire.errors.ConcretizationTypeError, r"segment_ids, which are traced: give num_segments"),
    (lambda: image.resize(X, (3, 4), "linear"), ValueError, r"quire\.image\.resize: shape \(3, 4\) must have as many sizes as the image f32\[3,7,5\]"),
    (lambda: image.resize(X, (3, 4, 4), "best"), ValueError, r"unknown resize method 'best': expected one of nearest, linear"),
    (lambda: image.resize(X, (3, 4, 4), 3), TypeError, r"method must be a ResizeMethod or its name, got 3"),
    (lambda: image.scale_and_translate(X, (3, 4, 4), (1, 2), SCALE, MOVE, "nearest"), ValueError, r"'nearest' is not supported: use quire\.image\.resize"),
    (lambda: image.scale_and_translate(X, (3, 4, 4), (1, 2), ONE, MOVE, "linear"), ValueError, r"scale must have shape \(2,\).*got f32\[1\]"),
    (lambda: image.scale_and_translate(X, (3, 4, 4), (1,), ONE, ONE, "linear"), ValueError, r"size 4 of dimension 2, which is not scaled"),
]  # fmt: skip


@pytest.mark.parametrize(("f", "error", "text"), ERRORS)
def test_errors(f, error, text):
    with pytest.raises(error, match=text):
        f()


def test_examples_of_use():
    """Mean of segments, and halving by resize, as one writes them."""
    sums, counts = ops.segment_sum(DATA, IDS, 4), ops.segment_sum(qnp.ones(7), IDS, 4)
    np.testing.assert_allclose((sums / counts[:, None])[2], DATA[IDS == 2].mean(0), rtol=1e-5)
    picture = np.arange(16, dtype=np.float32).reshape(4, 4)
    np.testing.assert_allclose(image.resize(picture, (2, 2), "area"), picture.reshape(2, 2, 2, 2).mean((1, 3)))
