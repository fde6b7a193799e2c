"""quire.nn against jax.nn: values, derivatives of first and second order, also at kinks; compiled; initializers; errors."""

from __future__ import annotations

import functools

import ml_dtypes
import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import nn
from quire.nn import initializers

jax = pytest.importorskip("jax")

RNG = np.random.default_rng(0)
ACTIVATIONS = (
    "celu elu gelu hard_sigmoid hard_silu hard_tanh identity leaky_relu log1mexp log_sigmoid mish relu relu6 selu sigmoid silu "
    "soft_sign softplus sparse_plus sparse_sigmoid squareplus tanh"
).split()
POINTS = np.array(
    [-np.inf, -200, -4, -3, -1.5, -1, -0.5, -1e-6, -0.0, 0, 1e-6, 0.5, np.log(2), 1, 2, 3, 6, 7, 80, np.inf, np.nan],
    np.float32,
)
X = RNG.normal(size=(3, 4)).astype(np.float32)
Y = RNG.normal(size=(3, 4)).astype(np.float32)
Y[0, 0] = 0
Z = (X + 1j * Y).astype(np.complex64)
W = np.array([[1, 1, 0, 1], [1, 1, 0, 1], [0, 0, 0, 0]], bool)


def compare(got, want, rtol=1e-4, atol=1e-5):
    """Trees of arrays with the same shapes and dtypes, NaN equal to NaN."""
    assert jax.tree_util.tree_structure(got) == jax.tree_util.tree_structure(want)
    paths = jax.tree_util.tree_flatten_with_path(want)[0]
    for (path, w), g in zip(paths, jax.tree_util.tree_leaves(got), strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype), path
        wide = [np.asarray(v).astype(np.complex64 if v.dtype.kind == "c" else np.float32) for v in (g, w)]
        rough = {"bfloat16": 0.02, "float16": 0.002}.get(str(w.dtype), 0.0)
        np.testing.assert_allclose(*wide, rtol=max(rtol, rough), atol=atol, err_msg=str(path))


def activations(m, points, second=True):
    """Value, first and second derivative of each function."""
    ones, out = np.ones_like(POINTS), {}
    functions = {n: getattr(m.nn, n) for n in ACTIVATIONS}
    functions["exact gelu"] = functools.partial(m.nn.gelu, approximate=False)
    for name, f in functions.items():

        def slope(x, f=f):
            return m.jvp(f, (x,), (ones,))[1]

        out[name] = m.jvp(f, (points,), (ones,))
        if second:
            out[name] += m.jvp(slope, (points,), (ones,))
    return out


def others(m, x, y, z, w):
    n, out = m.nn, {}
    for name in ("softmax", "log_softmax", "standardize"):
        for kw in ({"axis": -1}, {"axis": (0, 1)}, {"axis": 0, "where": w}):

            def loss(x, name=name, kw=kw):
                out = getattr(n, name)(x, **kw)
                return m.numpy.sum(m.numpy.where(m.numpy.isfinite(out), out, 0) * y)

            out[f"{name} {list(kw)}"] = (getattr(n, name)(x, **kw), m.grad(loss)(x))
    for kw in ({}, {"axis": 1}, {"axis": 0, "keepdims": True, "where": w}):
        out[f"logsumexp {list(kw)}"] = (
            n.logsumexp(x, **kw),
            m.grad(lambda x, kw=kw: n.logsumexp(x, **kw).sum())(x),
            n.logmeanexp(x, **kw),
        )
    infinite = np.array([-np.inf, -np.inf], np.float32), np.array([np.inf, 1], np.float32)
    out["logsumexp of more"] = [
        n.logsumexp(x, b=y, axis=1), n.logsumexp(x, b=y, axis=1, return_sign=True), n.logsumexp(z, axis=1),
        n.logsumexp(z, axis=1, return_sign=True), n.logsumexp(x, b=z, axis=1), *map(n.logsumexp, infinite),
    ]  # fmt: skip
    out["standardize"] = [n.standardize(x, algorithm="stable"), n.standardize(x, mean=y, variance=y * y)]
    out["one_hot"] = [
        n.one_hot(np.array([[0, 2], [5, -1]]), 3), n.one_hot(np.array([1, 0], np.uint8), 3, axis=0, dtype=np.int32),
        n.one_hot(1, 3, dtype=bool),
    ]  # fmt: skip
    out["parameters"] = [
        n.squareplus(x, 2), n.glu(x), n.glu(x.T[:2], axis=0), n.leaky_relu(x, 0.3), n.elu(x, 2.0), n.celu(x, 2.0),
        n.relu(np.arange(-2, 3)), n.relu6(np.arange(-2, 9)), n.hard_tanh(np.arange(-2, 3)), n.elu(np.arange(3)),
        n.softmax(x.astype(np.float16)), n.gelu(x.astype(ml_dtypes.bfloat16)),
    ]  # fmt: skip
    return out


def test_every_name_of_jax_is_there():
    for ours, theirs in ((nn, jax.nn), (initializers, jax.nn.initializers)):
        for name in (n for n in dir(theirs) if not n.startswith("_")):
            if name == "get_scaled_dot_general_config":
                with pytest.raises(
                    AttributeError,
                    match="numbers of 8 bits and fewer can be kept, moved and converted, and not computed with",
                ):
                    getattr(ours, name)
            else:
                assert getattr(ours, name).__doc__, name


DATA = {activations: (POINTS,), others: (X, Y, Z, W)}


@pytest.mark.parametrize("f", DATA, ids=lambda f: f.__name__)
def test_functions_against_jax(f):
    # JAX's own tanh is approximate, its derivatives of higher order more so.
    # Where tanh is 1 but for rounding, the derivatives of gelu are what is left of 1 - tanh**2.
    compare(f(quire, *DATA[f]), jax.jit(functools.partial(f, jax))(*DATA[f]), rtol=1e-4, atol=1e-4)


def test_compiled():
    """All of the above in one module."""
    functions = [functools.partial(activations, second=False), others]
    data = list(DATA.values())
    got = quire.compile(lambda data: [f(quire, *x) for f, x in zip(functions, data)])(data)
    compare(got, [f(quire, *x) for f, x in zip(functions, data)], rtol=1e-3, atol=2e-5)


def test_batched_and_reverse():
    """vmap of the gradient is the gradient of each."""
    x = POINTS[np.isfinite(POINTS)]
    for name in ACTIVATIONS:
        f = getattr(nn, name)
        each = quire.vmap(quire.grad(f))(x)
        np.testing.assert_allclose(each, quire.jvp(f, (x,), (np.ones_like(x),))[1], rtol=1e-5, atol=1e-6, err_msg=name)
    rows = quire.vmap(nn.softmax, in_axes=1, out_axes=1)(X)
    np.testing.assert_allclose(rows, nn.softmax(X, axis=0), rtol=1e-6)
    classes = quire.vmap(lambda x: nn.one_hot(x, 3, axis="i"), axis_name="i")(np.array([0, 2, 2]))
    np.testing.assert_array_equal(classes, [1, 0, 1])


@pytest.mark.parametrize(("x", "kinds"), [(1.0, "weak"), (np.float16(1), "float16"), (np.int32(1), "weak")])
def test_weak_types(x, kinds):
    for name in ("celu", "elu", "leaky_relu", "selu", "sparse_plus", "hard_sigmoid"):
        y = getattr(nn, name)(x)
        assert (y.weak_type and y.dtype == np.float32) if kinds == "weak" else y.dtype == kinds, name


# -- attention ----------------------------------------------------------------------------------------------------------------

B, T, S, N, K, H = 2, 5, 7, 4, 2, 8
Q = RNG.normal(size=(B, T, N, H)).astype(np.float32)
KEY = RNG.normal(size=(B, S, K, H)).astype(np.float32)
VALUE = RNG.normal(size=(B, S, K, H)).astype(np.float32)
BIAS = RNG.normal(size=(1, N, T, S)).astype(np.float32)
MASK = RNG.random((B, 1, T, S)) < 0.7
LENGTHS = {"query_seq_lengths": np.array([3, 5], np.int32), "key_value_seq_lengths": np.array([7, 2], np.int32)}


def attention(m, q, k, v, bias, mask, lengths):
    out = []
    for kw in (
        {}, {"bias": bias, "implementation": "xla"}, {"mask": mask, "is_causal": True},
        {"scale": 0.3, "local_window_size": (2, 1)}, {**lengths, "return_residual": True},
        {"local_window_size": 1, "bias": bias, "mask": mask},
    ):  # fmt: skip

        def f(q, k, v, kw=kw):
            return m.nn.dot_product_attention(q, k, v, **kw)

        def loss(q, k, v, f=f, kw=kw):
            y = f(q, k, v)
            return m.numpy.sum(y[0] if "return_residual" in kw else y) ** 2

        out.append((f(q, k, v), m.grad(loss, argnums=(0, 1, 2))(q, k, v)))
    out.append(m.nn.dot_product_attention(q[0], k[0], v[0], bias[0], return_residual=True))
    return out


def test_attention():
    data = (Q, KEY, VALUE, BIAS, MASK, LENGTHS)
    eager = attention(quire, *data)
    compare(eager, jax.jit(functools.partial(attention, jax))(*data))
    compare(quire.compile(functools.partial(attention, quire))(*data), eager, rtol=1e-3, atol=1e-4)
    batched = quire.vmap(lambda q, k, v, m: nn.dot_product_attention(q, k, v, mask=m))(Q, KEY, VALUE, MASK)
    np.testing.assert_allclose(batched, nn.dot_product_attention(Q, KEY, VALUE, mask=MASK), rtol=1e-5, atol=1e-6)
    half = [x.astype(ml_dtypes.bfloat16) for x in (Q, KEY, VALUE)]
    y = nn.dot_product_attention(*half)
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(y.astype(np.float32), eager[0][0], atol=3e-2)


def test_scaled_products():
    a, b = RNG.normal(size=(2, 3, 8)).astype(np.float32), RNG.normal(size=(2, 4, 8)).astype(np.float32)
    sa, sb = RNG.random((2, 3, 2)).astype(np.float32), RNG.random((2, 4, 2)).astype(np.float32)
    want = np.einsum("bmk,bnk->bmn", a * np.repeat(sa, 4, -1), b * np.repeat(sb, 4, -1))
    np.testing.assert_allclose(nn.scaled_matmul(a, b, sa, sb), want, rtol=1e-5, atol=1e-6)
    assert nn.scaled_matmul(a, b, sa, sb, preferred_element_type=np.float16).dtype == np.float16
    product = nn.scaled_dot_general(a, b, (((2,), (2,)), ((0,), (0,))))
    np.testing.assert_allclose(product, np.einsum("bmk,bnk->bmn", a, b), rtol=1e-5, atol=1e-5)


# -- initializers -------------------------------------------------------------------------------------------------------------

ORDINARY = {"constant": (2.0,), "normal": (), "truncated_normal": (), "uniform": (), "zeros": None, "ones": None}
SCALED = ("glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "lecun_normal", "lecun_uniform")


def initial_values(m, key):
    i = m.nn.initializers
    out = {n: getattr(i, n)(key, (3, 4)) if a is None else getattr(i, n)(*a)(key, (3, 4)) for n, a in ORDINARY.items()}
    out |= {n: getattr(i, n)()(key, (3, 4, 6)) for n in (*SCALED, "orthogonal", "delta_orthogonal")}
    for n in ("he_uniform", "lecun_normal"):
        out["complex " + n] = getattr(i, n)(dtype=np.complex64)(key, (3, 4))
    out["bfloat16"] = i.truncated_normal(2.0)(key, (3, 4), ml_dtypes.bfloat16)
    out["orthogonal wide"] = i.orthogonal(2.0, column_axis=0)(key, (3, 4, 6))
    for mode in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg"):
        scaling = i.variance_scaling(2.0, mode, "normal", in_axis=(0, 1), out_axis=2, batch_axis=3)
        out[mode] = scaling(key, (2, 3, 4, 5))
    out["constant array"] = i.constant(np.arange(4))(key, (2, 4), np.int32)
    return out


def test_initializers():
    key = quire.random.PRNGKey(3)
    compare(initial_values(quire, key), jax.jit(functools.partial(initial_values, jax))(np.asarray(key)), 1e-5, 1e-5)


def test_statistics_of_initializers():
    key = quire.random.key(0)
    for name, n in (("glorot_normal", 75), ("he_uniform", 100 / 2), ("lecun_normal", 100), ("lecun_uniform", 100)):
        for dtype in (np.float32, np.complex64):
            x = np.asarray(getattr(initializers, name)()(key, (100, 50), dtype))
            assert abs(x.mean()) < 0.01, name
            np.testing.assert_allclose(np.mean(abs(x) ** 2), 1 / n, rtol=0.1, err_msg=name)
    q = np.asarray(initializers.orthogonal()(key, (6, 3)))
    np.testing.assert_allclose(q.T @ q, np.eye(3), atol=1e-5)


# -- errors -------------------------------------------------------------------------------------------------------------------

ERRORS = [
    (lambda: nn.relu([1.0]), TypeError, r"quire\.nn\.relu: x must be an array or a number, got list: convert it first"),
    (lambda: nn.sigmoid(2), TypeError, r"quire\.nn\.sigmoid: x must be a float or complex array, got i32\[\]~?.*convert it"),
    (lambda: nn.softmax(W), TypeError, r"quire\.nn\.softmax: x must be numbers, got bool\[3,4\]"),
    (lambda: nn.log1mexp(Z), TypeError, r"quire\.nn\.log1mexp: x must be real, got c64\[3,4\]"),
    (lambda: nn.glu(X[:, :3]), ValueError, r"quire\.nn\.glu: axis -1 of f32\[3,3\] must have an even size"),
    (lambda: nn.glu(X, axis=2), ValueError, r"quire\.nn\.glu: axis 2 is out of bounds for array of dimension 2"),
    (lambda: nn.standardize(X, algorithm="slow"), ValueError, r"quire\.nn\.standardize: algorithm must be one of 'fast', 'stable'"),
    (lambda: nn.one_hot(1, 2.5), TypeError, r"quire\.nn\.one_hot: num_classes must be an integer, got 2\.5"),
    (lambda: nn.one_hot(1, 2, axis=3), ValueError, r"quire\.nn\.one_hot: axis 3 is out of bounds for a result of dimension 1"),
    (lambda: quire.vmap(lambda x: nn.one_hot(x, 4, axis="i"), axis_name="i")(np.arange(3)), ValueError,
     r"quire\.nn\.one_hot: num_classes 4 must be the size of axis 'i', 3"),
    (lambda: nn.dot_product_attention(Q, KEY, VALUE[:1]), ValueError, r"value must have shape \(2, 7, 2, 8\), got f32\[1,7,2,8\]"),
    (lambda: nn.dot_product_attention(Q, KEY, VALUE.astype("f2")), ValueError, r"value must have dtype float32, got f16\[2,7,2,8\]"),
    (lambda: nn.dot_product_attention(Q[:, :, :3], KEY, VALUE), ValueError, r"query's heads, 3, must be a multiple of .*, 2"),
    (lambda: nn.dot_product_attention(Q, KEY, VALUE, mask=BIAS), ValueError, r"mask must have dtype bool, got f32"),
    (lambda: nn.dot_product_attention(Q, KEY, VALUE, BIAS[:, :, :2]), ValueError, r"bias f32\[1,4,2,7\] does not broadcast to the logits \(2, 4, 5, 7\)"),
    (lambda: nn.dot_product_attention(Q, KEY, VALUE, implementation="cudnn"), NotImplementedError, r"implementation 'cudnn' is not there"),
    (lambda: nn.dot_product_attention(Q[None], KEY, VALUE), ValueError, r"query must have at most 4 dimensions, got f32\[1,2,5,4,8\]"),
    (lambda: nn.scaled_matmul(X, X, X, X), ValueError, r"quire\.nn\.scaled_matmul: lhs must have 3 dimensions, got f32\[3,4\]"),
    (lambda: nn.scaled_matmul(Q[0], Q[0], Q[0, :, :, :3], Q[0]), ValueError, r"lhs_scales must be \(5, 4\) and a divisor of 8, got f32\[5,4,3\]"),
    (lambda: nn.scaled_matmul(Q[0], Q[1, :3], Q[0], Q[0]), ValueError, r"lhs must be \(B, M, K\) and rhs \(B, N, K\), got f32\[5,4,8\]"),
    (lambda: nn.scaled_dot_general(X, X, (((1,), (1,)), ((), ())), configs=[1]), NotImplementedError, r"configs are not supported"),
    (lambda: initializers.variance_scaling(1.0, "fan", "normal"), ValueError, r"variance_scaling: mode must be one of 'fan_in', 'fan_out'"),
    (lambda: initializers.variance_scaling(1.0, "fan_in", "gamma"), ValueError, r"variance_scaling: distribution must be one of"),
    (lambda: initializers.he_normal()(quire.random.key(0), (3,)), ValueError, r"initializers\.he_normal: .* of shape \(3,\) .* at least 2 dimensions"),
    (lambda: initializers.he_normal(in_axis=5)(quire.random.key(0), (3, 2)), ValueError, r"he_normal: axis 5 is out of bounds for weights of shape \(3, 2\)"),
    (lambda: initializers.normal()(quire.random.key(0), (3,), np.int32), TypeError, r"initializers\.normal: dtype must be a float or complex dtype, got int32"),
    (lambda: initializers.normal()(quire.random.key(0), (3,), "shape"), TypeError, r"initializers\.normal: 'shape' is not a dtype that quire has"),
    (lambda: initializers.normal()(quire.random.key(0), (3,), out_sharding=1), TypeError, r"out_sharding: expected a sharding"),
    (lambda: initializers.orthogonal()(quire.random.key(0), (3,)), ValueError, r"orthogonal: the shape must have at least 2 dimensions, got \(3,\)"),
    (lambda: initializers.delta_orthogonal()(quire.random.key(0), (3, 2)), ValueError, r"the shape must have 3, 4 or 5 dimensions, got \(3, 2\)"),
    (lambda: initializers.delta_orthogonal()(quire.random.key(0), (3, 4, 2)), ValueError, r"not be fewer outputs than inputs, got shape \(3, 4, 2\)"),
]  # fmt: skip


@pytest.mark.parametrize(("f", "error", "text"), ERRORS)
def test_errors(f, error, text):
    with pytest.raises(error, match=text):
        f()


def test_a_long_dtype_is_announced():
    with pytest.warns(
        UserWarning, match=r"Explicitly requested dtype float64 of .*initializers\.normal is not available"
    ):
        initializers.normal()(quire.random.key(0), (3,), np.float64)


def test_derivatives_of_numpy_at_kinks():
    """abs and logaddexp, of which activations are made."""
    x = np.array([0.0, -0.0, 1.0, -1.0, np.inf], np.float32)
    one = np.ones_like(x)
    np.testing.assert_array_equal(quire.jvp(qnp.abs, (x,), (one,))[1], [1, 1, 1, -1, 1])
    np.testing.assert_array_equal(quire.grad(quire.grad(qnp.logaddexp))(0.0, 0.0), 0.25)
    assert quire.grad(qnp.logaddexp)(np.inf, 1.0) == 1.0
    assert qnp.abs(1.0).weak_type and qnp.logaddexp(1.0, 0.0).weak_type
