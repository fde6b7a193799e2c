"""Functions over the whole surface with arguments: name -> (function, arguments). Results are compared with quire's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import quire
import quire.numpy as qnp
from quire import lax

_rng = np.random.default_rng(17)


def _f(*shape: int, dtype: str = "float32") -> Any:
    return _rng.normal(size=shape).astype(dtype)


def _i(*shape: int, high: int = 9, dtype: str = "int32") -> Any:
    return _rng.integers(0, high, shape).astype(dtype)


X, Y, V, K = _f(12, 20), _f(12, 20), _f(37), _i(37)
A, B = _f(20, 16), _f(16)
SQUARE = _f(9, 9) + 9 * np.eye(9, dtype=np.float32)
SYMMETRIC = (SQUARE + SQUARE.T) / 2
IMAGE, FILTER = _f(1, 3, 12, 12), _f(4, 3, 3, 3)
KEY = np.array([0, 7], np.uint32)
C = (_f(16) + 1j * _f(16)).astype(np.complex64)
BIG = _f(4000)

TABLE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


def _add(name: str, f: Callable[..., Any], *args: Any) -> None:
    assert name not in TABLE, name
    TABLE[name] = (f, args)


for (
    _name
) in "sin cos tan exp log1p tanh sqrt abs sign floor ceil arctan arcsinh cbrt expm1 square exp2 isfinite sinc".split():
    _add(_name, getattr(qnp, _name), np.abs(X) if _name in ("sqrt", "log1p", "cbrt") else X)
for _name in "add subtract multiply divide maximum arctan2 hypot logaddexp fmod less copysign nextafter".split():
    _add(_name, getattr(qnp, _name), X, Y)
_add("power", qnp.power, np.abs(X), Y)
_add("floor_divide", qnp.floor_divide, K, K + 1)
_add("bitwise", lambda a, b: (a & b, a | b, a ^ b, ~a, a << 2, a >> 1), K, _i(37))
_add("where", lambda x, y: qnp.where(x > y, x, 2 * y), X, Y)
_add("astype", lambda x: (x.astype("int32"), x.astype("bfloat16"), x > 0), X)
_add("to_half", lambda x: x.astype("float16") * 2, X)
_add("half", lambda x: x * 2 + 1, V.astype(np.float16))
_add("int8", lambda x: x * 3 - 1, K.astype(np.int8))
_add("complex", lambda z: (z * z.conj(), abs(z), qnp.exp(z)), C)
_add("scalar", lambda x, n: x * n, np.float32(2.5), np.int32(3))
_add("constants", lambda x: x + qnp.arange(20) * qnp.linspace(0, 1, 20), X)
_add("identity", lambda x: x, X)
_add("argument_and_more", lambda x, y: (x, x + y, y), X, Y)
_add("same_twice", lambda x: (2 * x, 2 * x, {"again": 2 * x}), X)
_ONE, _OTHER = _f(4, 1), _f(4, 1)
_add(
    "arguments_when_lowered",
    lambda a, b, z, k: (
        qnp.sort(a, 1),
        lax.cummax(b, 1),
        qnp.fft.fft(z),
        lax.reduce_precision(a, 8, 23),
        lax.fori_loop(0, 0, lambda i, c: c * 2, b),
        lax.dynamic_update_slice(a, b, (0, 0)),
        qnp.split(b, 1)[0],
        qnp.take(a, qnp.arange(1), 1, mode="clip"),
        lax.bitcast_convert_type(lax.bitcast_convert_type(a, "int32"), "float32"),
        k != False,  # noqa: E712
        a + b,
    ),
    *(_ONE, _OTHER, _ONE.astype("complex64"), _ONE > 0),
)
_add(
    "donated_as_it_is",
    quire.jit(lambda a, b: (qnp.sort(b, 1), lax.cummin(a, 1), b * 2), donate_argnums=(0, 1)),
    _ONE,
    _OTHER,
)
_add("no_argument", lambda: qnp.arange(6) * 2)
_add("unused", lambda x, y: x + 1, X, Y)
_add("nothing", lambda x: (), V)
_add("empty", lambda x: qnp.concatenate([x, x], axis=0), np.zeros((0, 3), np.float32))
_add("tree", lambda p, x: {"y": p["w"] * x + p["b"][0], "z": (p["b"][0], [x.sum()])}, {"w": X, "b": [Y]}, X)
_add("class", lambda struct: struct + 1, V)
_add(
    "names",
    lambda c, weights, arena, a0, v1, b, n, s, X, x: c + weights + arena + a0 + v1 + b + n + s + X + x,
    *[V] * 10,
)
# structure
_add("transpose", lambda x: x.T, X)
_add("reshape", lambda x: x.reshape(5, 48), X)
_add("pad", lambda x: qnp.pad(x, 2), X)
_add("concatenate", lambda x, y: qnp.concatenate([x, y], axis=1), X, Y)
_add("stack", lambda x, y: qnp.stack([x, y]), X, Y)
_add("slices", lambda x: (x[1:5, ::3], x[::-1], x[:, None, 3]), X)
_add("roll", lambda x: qnp.roll(x, 3, axis=1), X)
_add("tile", lambda x: qnp.tile(x, (2, 3)), V)
_add("repeat", lambda x: qnp.repeat(x, 3), V)
_add("dynamic_slice", lambda x, i: lax.dynamic_slice(x, (i, 2), (3, 4)), X, np.int32(4))
_add("dynamic_update", lambda x, i: lax.dynamic_update_slice(x, qnp.ones((2, 3)), (i, 2)), X, np.int32(4))
_add("take", lambda x, i: x[i], X, _i(7))
_add("take_along_axis", lambda x: qnp.take_along_axis(x, qnp.argsort(x, axis=1), axis=1), X)
_add("at_set", lambda x, i: x.at[i].set(0.5), X, _i(4))
_add("at_add", lambda x, i, v: x.at[i].add(v), V, _i(50), _f(50))
_add("segment_sum", lambda v, i: quire.ops.segment_sum(v, i, num_segments=9), _f(200), _i(200))
_add("one_hot", lambda i: quire.nn.one_hot(i, 9), K)
_add("meshgrid", lambda x, y: qnp.meshgrid(x, y), V, B)
_add("tril", lambda x: (qnp.tril(x), qnp.triu(x, 2)), X)
# reductions and scans
_add("sum", lambda x: (x.sum(), x.sum(0), x.sum(1, keepdims=True)), X)
_add("mean_var", lambda x: (x.mean(), x.var(0), x.std(1)), X)
_add("max_argmax", lambda x: (x.max(1), x.argmax(0), x.min(), x.argmin(1)), X)
_add("all_any", lambda x: ((x > 0).all(0), (x > 1).any()), X)
_add("prod", lambda x: qnp.prod(x), B)
_add("logsumexp", lambda x: quire.nn.logsumexp(x, axis=1), X)
_add("softmax", lambda x: quire.nn.softmax(x), X)
_add("layer_norm", lambda x: (x - x.mean(1, keepdims=True)) / qnp.sqrt(x.var(1, keepdims=True) + 1e-5), X)
_add("cumsum", lambda x: (qnp.cumsum(x), qnp.cumsum(x, axis=0)), X)
_add("cumprod", lambda x: qnp.cumprod(x), B)
_add("cummax", lambda x: lax.cummax(x, axis=1), X)
_add("median", lambda x: qnp.median(x, axis=1), X)
_add("quantile", lambda x: qnp.quantile(x, qnp.array([0.1, 0.5])), V)
_add("large_sum", lambda x: x.sum(), BIG)
_add("max_pool", lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"), IMAGE)
_add("histogram", lambda x: qnp.histogram(x, bins=5)[0], V)
_add("bincount", lambda k: qnp.bincount(k, length=9), K)
# sorting
_add("sort", lambda x: (qnp.sort(x), qnp.sort(x, axis=0)), X)
_add("argsort", lambda x: qnp.argsort(x), BIG)
_add("sort_ints", lambda k: qnp.sort(k)[::-1], K)
_add("top_k", lambda x: lax.top_k(x, 5), X)
_add("unique", lambda k: qnp.unique(k, size=9), K)
_add("searchsorted", lambda x, v: qnp.searchsorted(qnp.sort(x), v), V, B)
# products
_add("matmul", lambda x, a: x @ a, X, A)
_add("matvec", lambda a, b: a @ b, A, B)
_add("dot", lambda x, y: qnp.dot(x, y), V, V)
_add("outer", lambda x, y: qnp.outer(x, y), V, B)
_add("einsum", lambda x, a: qnp.einsum("ij,jk->ki", x, a), X, A)
_add("batched", lambda x: x @ x.swapaxes(1, 2), _f(3, 4, 5))
_add("conv", lambda x, w: lax.conv(x, w, (1, 1), "SAME"), IMAGE, FILTER)
_add("conv_1d", lambda x: qnp.convolve(x, B), V)
_add("attention", lambda q, k, v: quire.nn.softmax(q @ k.T / 4) @ v, _f(10, 16), _f(14, 16), _f(14, 8))
_add("mlp", lambda x: quire.nn.relu(x @ A + B) @ A[:16, :4], X)
_add("mlp_batch", lambda x: quire.vmap(lambda v: qnp.tanh(v @ A))(x), X)
# linear algebra
_add("cholesky", lambda a: qnp.linalg.cholesky(a @ a.T), SQUARE)
_add("solve", lambda a, b: qnp.linalg.solve(a, b), SQUARE, _f(9))
_add("inv", qnp.linalg.inv, SQUARE)
_add("det", lambda a: qnp.linalg.det(a / 9), SQUARE)
_add("qr", lambda a: qnp.linalg.qr(a)[1] ** 2, SQUARE)
_add("eigvalsh", lambda a: qnp.linalg.eigvalsh(a), SYMMETRIC)
_add("svdvals", lambda a: qnp.linalg.svd(a, compute_uv=False), SQUARE)
_add("norm", lambda a: (qnp.linalg.norm(a), qnp.linalg.norm(a, axis=1)), SQUARE)
_add("matrix_power", lambda a: qnp.linalg.matrix_power(a / 9, 3), SQUARE)
_add(
    "triangular", lambda a, b: lax.linalg.triangular_solve(qnp.tril(a), b, left_side=True, lower=True), SQUARE, _f(9, 2)
)
# transforms of Fourier
_add("fft", lambda z: qnp.fft.fft(z), C)
_add("ifft", lambda z: qnp.fft.ifft(z), C)
_add("rfft", lambda x: qnp.fft.rfft(x), X)
_add("irfft", lambda z: qnp.fft.irfft(z), C)
_add("fft_2d", lambda x: abs(qnp.fft.fft2(x)), X)
_add("fft_odd", lambda x: abs(qnp.fft.fft(x)), V)
# control flow
_add("cond", lambda x, n: lax.cond(n > 3, qnp.sin, lambda v: v * 2, x), X, np.int32(2))
_add("switch", lambda x, n: lax.switch(n, [qnp.sin, lambda v: v * 2, qnp.sort], x), X, np.int32(2))
_add("fori", lambda x: lax.fori_loop(0, 5, lambda i, v: qnp.sin(v) + i, x), X)
_add("fori_data", lambda x, n: lax.fori_loop(0, n, lambda i, v: qnp.cumsum(qnp.sort(v, 1), 1) / 20, x), X, np.int32(4))
_add(
    "while",
    lambda n: lax.while_loop(
        lambda c: c[0] != 1, lambda c: (qnp.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), c[1] + 1), (n, 0)
    ),
    np.int32(27),
)
_add(
    "while_fft",
    lambda x, n: lax.while_loop(
        lambda c: c[1] < n, lambda c: (qnp.sort(qnp.fft.rfft(c[0]).real[:8].repeat(2)) + c[0], c[1] + 1), (x, 0)
    ),
    _f(16),
    np.int32(3),
)
_add(
    "while_norm",
    lambda x: lax.while_loop(lambda v: qnp.linalg.norm(v) > 1, lambda v: qnp.tanh(v @ SQUARE / 20), x),
    _f(9),
)
_add(
    "power_iteration",
    lambda a: lax.fori_loop(0, 20, lambda _, v: (a @ v) / qnp.linalg.norm(a @ v), qnp.ones(9)),
    SYMMETRIC,
)
_add("scan", lambda x: lax.scan(lambda c, v: (c * 0.5 + v, qnp.sin(c)), qnp.zeros(20), x), X)
_add("scan_sort", lambda x: lax.scan(lambda c, v: (qnp.sort(c + v), c.sum()), qnp.zeros(20), x), X)
_add("associative_scan", lambda x: lax.associative_scan(qnp.add, x), V)
_add(
    "nested_loops",
    lambda x: lax.fori_loop(
        0, 3, lambda i, v: lax.while_loop(lambda u: u.sum() < 40, lambda u: qnp.sort(u + 1), v) - 5, x
    ),
    _f(8),
)
_add("map", lambda x: lax.map(lambda v: qnp.sort(v)[:3], x), X)
# derivatives
_add("grad", quire.grad(lambda x: (qnp.sin(x) ** 2).sum()), X)
_add("value_and_grad", quire.value_and_grad(lambda a, x: (qnp.tanh(x @ a) ** 2).mean()), A, X)
_add("hessian", quire.hessian(lambda v: (qnp.sin(v) * v).sum() ** 2), _f(6))
_add("jvp", lambda x: quire.jvp(qnp.tanh, (x,), (x,)), X)
_add("vjp_scan", quire.grad(lambda x: lax.scan(lambda c, v: (qnp.sin(c + v), c), 0.0, x)[0]), V)
_add("grad_cond", quire.grad(lambda x: lax.cond(x.sum() > 0, lambda v: (v**2).sum(), lambda v: v.sum(), x)), V)
# random numbers
_add("uniform", lambda k: quire.random.uniform(k, (9, 5)), KEY)
_add("normal", lambda k: quire.random.normal(k, (40,)), KEY)
_add("randint", lambda k: quire.random.randint(k, (40,), 0, 100), KEY)
_add("split", lambda k: [quire.random.uniform(x, (3,)) for x in quire.random.split(k, 3)], KEY)
_add("permutation", lambda k: quire.random.permutation(k, 31), KEY)
_add("gamma", lambda k: quire.random.gamma(k, 2.0, (7,)), KEY)
_add("bernoulli", lambda k: quire.random.bernoulli(k, 0.3, (50,)), KEY)
_add("dropout", lambda k, x: qnp.where(quire.random.bernoulli(k, 0.5, x.shape), x * 2, 0), KEY, X)
# special functions
for _name in "erf gammaln digamma expit log_ndtr i0".split():
    _add(_name, getattr(quire.scipy.special, _name), np.abs(X) + 0.1)
_add("norm_logpdf", lambda x: quire.scipy.stats.norm.logpdf(x), X)
_add("interp", lambda x: qnp.interp(x, qnp.arange(5.0), qnp.arange(5.0) ** 2), V)
_add("polyval", lambda x: qnp.polyval(qnp.array([1.0, -2.0, 3.0]), x), V)
# donated arguments are written in place
_add("donated", quire.jit(lambda x, y: x + y, donate_argnums=0), X, Y)
_add(
    "donated_tree",
    quire.jit(lambda p, g: {k: p[k] - 0.1 * g[k] for k in p}, donate_argnums=0),
    {"a": X, "b": V},
    {"a": Y, "b": V},
)
_add("donated_update", quire.jit(lambda x, i: x.at[i].set(1.0), donate_argnums=0), BIG, np.int32(3))
