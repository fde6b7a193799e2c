"""A table of functions over the whole surface, which every target must compute.

The functions are written in JAX's names, so that quire and JAX compute the same ones: ``surface(quire)``,
``surface(jax)``. Arrays are 64 x 96 or of odd sizes: on GPUs a workgroup then has several subgroups, and tails.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

NAMES = {"bf16": ml_dtypes.bfloat16, "b": np.bool_, "key": np.uint32}


@dataclass(frozen=True)
class Numbers:
    """An argument: its shape, its dtype ("f32", "i16", "bf16", "c64", "b", ...), and between which numbers it lies."""

    dtype: str
    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0

    def make(self, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        """The array: uniform numbers, of integers from ``low`` to ``high - 1``."""
        kind = np.dtype(NAMES.get(self.dtype) or f"{self.dtype[0]}{int(self.dtype[1:]) // 8}")
        if self.dtype == "b":
            return rng.random(self.shape) < 0.5
        if kind.kind in "iu":
            return rng.integers(int(self.low), int(self.high), self.shape).astype(kind)
        numbers = rng.uniform(self.low, self.high, self.shape)
        if kind.kind == "c":
            numbers = numbers + 1j * rng.uniform(self.low, self.high, self.shape)
        return numbers.astype(kind)


@dataclass(frozen=True)
class Entry:
    """A function of the table.

    Attributes:
        name: its name; the subject comes first ("grad of attention" is under "attention").
        function: the function, of arrays.
        numbers: what its arguments are.
        x64: whether it needs 64-bit dtypes.
        tolerance: how far results may be from those of another implementation, in units of the magnitude below.
        by_element: whether the magnitude is that of each element, and not the largest of the result's.
    """

    name: str
    function: Callable[..., Any]
    numbers: tuple[Numbers, ...]
    x64: bool = False
    tolerance: float = 2e-5
    by_element: bool = False

    def arguments(self) -> tuple[np.ndarray[Any, Any], ...]:
        """The arguments, the same ones at each call."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        return tuple(numbers.make(rng) for numbers in self.numbers)

    def difference(self, got: Any, want: Any) -> str:
        """How results differ from those of another implementation, beyond the tolerance; empty where they do not.

        Both are a flat list of arrays.
        """
        if len(got) != len(want):
            return f"{len(got)} results instead of {len(want)}"
        for i, (a, b) in enumerate(zip(map(np.asarray, got), map(np.asarray, want))):
            if a.shape != b.shape or a.dtype != b.dtype:
                return f"result {i}: {a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
            if a.dtype.kind in "biu":
                wrong = a != b
            else:
                wide = np.complex128 if a.dtype.kind == "c" else np.float64
                a, b = a.astype(wide), b.astype(wide)
                finite = np.abs(b[np.isfinite(b)])
                magnitude = np.abs(b) if self.by_element else finite.max(initial=1e-30)
                with np.errstate(invalid="ignore"):
                    near = np.abs(a - b) <= self.tolerance * magnitude
                wrong = ~(near | (a == b) | (np.isnan(a) & np.isnan(b)))
            if np.any(wrong):
                at = tuple(int(k) for k in np.argwhere(wrong)[0])
                return (
                    f"result {i}: {int(np.sum(wrong))} of {a.size} elements, first at {at}: {a[at]} instead of {b[at]}"
                )
        return ""


def f32(*shape: int, low: float = -2.0, high: float = 2.0) -> Numbers:
    return Numbers("f32", shape, low, high)


def i32(*shape: int, low: int = -50, high: int = 50) -> Numbers:
    return Numbers("i32", shape, low, high)


MATRIX, ODD = f32(64, 96), f32(37, 61)
POSITIVE = f32(64, 96, low=0.1, high=3.0)
KEY = Numbers("key", (2,), 0, 1 << 31)


def surface(jax: Any) -> dict[str, Entry]:
    """The table by name, of functions that compute with `jax`: the module of quire, or JAX's."""
    found: dict[str, Entry] = {}
    for group in (elementwise, narrow, reductions, ordering, indexing, movement, cumulative, contraction, convolution,
                  networks, fourier, randomness, control_flow, linear_algebra, derivatives, wide):  # fmt: skip
        for entry in group(jax):
            assert entry.name not in found, entry.name
            found[entry.name] = entry
    return found


def elementwise(jax: Any) -> Iterator[Entry]:
    np, lax, nn, special = jax.numpy, jax.lax, jax.nn, jax.scipy.special

    def each(name: str, f: Callable[..., Any], *numbers: Numbers, tolerance: float = 2e-5) -> Entry:
        return Entry(name, f, numbers, tolerance=tolerance, by_element=True)

    yield each("arithmetic", lambda x, y: (x + y) * (x - y) / (1 + y * y), MATRIX, MATRIX, tolerance=1e-4)
    yield each("exp and log", lambda x: (np.exp(x), np.log(x + 3), np.exp2(x), np.log2(x + 3)), MATRIX, tolerance=1e-4)
    yield each("expm1", np.expm1, f32(64, 96, low=-0.01, high=0.01))
    yield each("expm1 of large numbers", np.expm1, f32(37, 61, low=-20, high=20))
    yield each("log1p", np.log1p, f32(64, 96, low=-0.01, high=0.01))
    yield each("sinh", np.sinh, f32(64, 96, low=-0.5, high=0.5))
    yield each("cosh and tanh", lambda x: (np.cosh(x), np.tanh(x)), MATRIX)
    yield each("inverse hyperbolic", lambda x: (np.arcsinh(x), np.arctanh(x / 4), np.arccosh(x + 4)), MATRIX)
    yield each("sin and cos", lambda x: (np.sin(x), np.cos(x)), f32(64, 96, low=0.1, high=1.4))
    yield Entry("sin of large numbers", np.sin, (f32(64, 96, low=-500, high=500),))
    yield each("tan", np.tan, f32(37, 61, low=0.1, high=1.4))
    yield each("arctan2", np.arctan2, MATRIX, MATRIX)
    yield each("power", lambda x, y: (np.power(x, y), x**3, x**0.5), POSITIVE, MATRIX, tolerance=1e-4)
    yield each("roots", lambda x: (np.sqrt(x), lax.rsqrt(x), np.cbrt(x)), POSITIVE)
    yield each("erf", special.erf, MATRIX)
    yield Entry("erfinv", special.erfinv, (f32(37, 61, low=-0.99, high=0.99),))
    yield Entry("gammaln and digamma", lambda x: (special.gammaln(x), special.digamma(x)), (POSITIVE,), tolerance=1e-4)
    yield Entry(
        "gammainc", special.gammainc, (f32(37, 61, low=0.5, high=4.0), f32(37, 61, low=0.1, high=5.0)), tolerance=1e-4
    )
    yield each("logaddexp", np.logaddexp, POSITIVE, POSITIVE)
    yield each("activations", lambda x: (nn.relu(x), nn.sigmoid(x), nn.silu(x)), MATRIX)
    yield Entry("gelu", nn.gelu, (MATRIX,))
    yield each("rounding", lambda x: (np.floor(x), np.ceil(x), np.round(x), np.trunc(x)), f32(64, 96, low=-90, high=90))
    yield each(
        "remainders", lambda x, y: (np.remainder(x, y), np.fmod(x, y)), f32(37, 61, low=-9, high=9), POSITIVE_ODD
    )
    yield each("nextafter and frexp", lambda x, y: (np.nextafter(x, y), *np.frexp(x)), ODD, ODD)
    yield each("where and clip", lambda x, y: (np.where(x > y, x, -y), np.clip(x, -1, 1)), MATRIX, MATRIX)
    yield each(
        "comparisons", lambda x, y: (x < y, x == y, np.isnan(x / y), np.sign(x)), MATRIX, f32(64, 96, low=0, high=0)
    )
    yield each("broadcast of a row and a column", lambda x, y: x[:, None] * y - x[0], f32(37), f32(61))


POSITIVE_ODD = f32(37, 61, low=0.3, high=2.0)


def narrow(jax: Any) -> Iterator[Entry]:
    """Dtypes other than float32."""
    np, lax = jax.numpy, jax.lax
    short = Numbers("i16", (64, 96), -3000, 3000)
    unsigned = Numbers("u16", (64, 96), 0, 60000)
    half, brain = Numbers("f16", (64, 96)), Numbers("bf16", (64, 96))
    yield Entry("f16 arithmetic", lambda x, y: (x * y + x, np.exp(x)), (half, half), tolerance=4e-3)
    yield Entry("bf16 arithmetic", lambda x, y: (x * y + x, np.tanh(x)), (brain, brain), tolerance=2e-2)
    yield Entry("i32 division", lambda x, y: (x // y, x % y, lax.div(x, y)), (i32(64, 96), i32(64, 96, low=1, high=9)))
    yield Entry("i16 times 3", lambda x: x * 3, (short,))
    yield Entry("u16 times 3", lambda x: x * 3, (unsigned,))
    yield Entry("i16 remainder by 7", lambda x: (x % 7, x // 7), (short,))
    yield Entry("u16 remainder by 7", lambda x: (x % 7, x // 7), (unsigned,))
    yield Entry("i8 arithmetic", lambda x, y: (x + y, x * 3, np.maximum(x, y)),
                (Numbers("i8", (37, 61), -100, 100), Numbers("i8", (37, 61), -100, 100)))  # fmt: skip
    yield Entry("bits", lambda x, y: (x & y, x ^ y, x << 3, x >> 2, lax.population_count(x), lax.clz(x)),
                (i32(64, 96, low=0, high=1 << 20), i32(64, 96)))  # fmt: skip
    yield Entry(
        "conversions", lambda x: (x.astype("int32"), x.astype("float16"), x.astype("bfloat16"), x > 0), (MATRIX,)
    )
    yield Entry("complex arithmetic", lambda x, y: (x * y - x / (y + 4), abs(x), np.exp(x)),
                (Numbers("c64", (37, 61)), Numbers("c64", (37, 61))))  # fmt: skip
    yield Entry("bool arithmetic", lambda x, y: (x & y, x ^ y, ~x, x.astype("float32") + 1),
                (Numbers("b", (64, 96)), Numbers("b", (64, 96))))  # fmt: skip


def reductions(jax: Any) -> Iterator[Entry]:
    np = jax.numpy
    yield Entry("sum", lambda x: np.sum(x), (MATRIX,), tolerance=1e-4)
    yield Entry("sum of axis 0", lambda x: np.sum(x, axis=0), (MATRIX,))
    yield Entry("sum of axis 1", lambda x: np.sum(x, axis=1), (MATRIX,))
    yield Entry(
        "sums of odd sizes", lambda x: (np.sum(x), np.sum(x, 0), np.sum(x, 1)), (f32(1001, 77),), tolerance=1e-4
    )
    yield Entry("sum of the middle axis", lambda x: np.sum(x, axis=1), (f32(5, 37, 19),))
    yield Entry("prod", lambda x: np.prod(x, axis=1), (f32(64, 96, low=0.9, high=1.1),))
    yield Entry("max and min", lambda x: (np.max(x), np.min(x, 0), np.max(x, 1)), (MATRIX,))
    yield Entry("mean and var", lambda x: (np.mean(x, 1), np.var(x, 1), np.std(x, 0)), (MATRIX,))
    yield Entry("argmax and argmin", lambda x: (np.argmax(x), np.argmax(x, 0), np.argmin(x, 1)), (ODD,))
    yield Entry("any and all", lambda x: (np.any(x, 0), np.all(x, 1), np.any(x)), (Numbers("b", (64, 96)),))
    yield Entry("logsumexp", lambda x: jax.scipy.special.logsumexp(x, axis=1), (MATRIX,))
    yield Entry("norm", lambda x: (np.linalg.norm(x), np.linalg.norm(x, axis=0)), (MATRIX,))
    yield Entry("i32 sums", lambda x: (np.sum(x), np.sum(x, 0), np.max(x, 1)), (i32(64, 96),))
    yield Entry("f16 sum", lambda x: np.sum(x, axis=1), (Numbers("f16", (64, 96)),), tolerance=4e-3)
    yield Entry("bf16 sum", lambda x: np.sum(x, axis=0), (Numbers("bf16", (64, 96)),), tolerance=2e-2)
    yield Entry("complex sum", lambda x: np.sum(x, axis=1), (Numbers("c64", (37, 61)),))


def ordering(jax: Any) -> Iterator[Entry]:
    np, lax = jax.numpy, jax.lax
    yield Entry("sort", lambda x: np.sort(x), (MATRIX,))
    yield Entry("sort of axis 0", lambda x: np.sort(x, axis=0), (ODD,))
    yield Entry("sort of 3000", lambda x: np.sort(x), (f32(3000),))
    yield Entry("argsort", lambda x: np.argsort(x), (i32(37, 61),))
    yield Entry("sort of two operands", lambda x, y: lax.sort((x, y), num_keys=1), (i32(64, 96), MATRIX))
    yield Entry("top_k", lambda x: lax.top_k(x, 7), (MATRIX,))
    yield Entry("median", lambda x: np.median(x, axis=1), (ODD,))
    yield Entry("searchsorted", lambda x, y: np.searchsorted(np.sort(x), y), (f32(64), f32(37)))


def indexing(jax: Any) -> Iterator[Entry]:
    np, lax = jax.numpy, jax.lax
    places = i32(50, low=-64, high=64)
    yield Entry("rows", lambda x, i: x[i], (MATRIX, places))
    yield Entry("elements", lambda x, i: x[i, i[::-1]], (MATRIX, places))
    yield Entry("take_along_axis", lambda x: np.take_along_axis(x, np.argsort(x, 1), 1), (ODD,))
    yield Entry("slices with steps", lambda x: x[::-1, ::2], (MATRIX,))
    yield Entry("dynamic slice", lambda x, i: lax.dynamic_slice(x, (i[0], 5), (9, 11)), (MATRIX, places))
    yield Entry(
        "dynamic update", lambda x, y, i: lax.dynamic_update_slice(x, y, (i[0], i[1])), (MATRIX, f32(9, 11), places)
    )
    yield Entry("set", lambda x, y: x.at[3:9, ::2].set(y), (MATRIX, f32(6, 48)))
    yield Entry("scatter add", lambda x, i, y: x.at[i].add(y), (MATRIX, places, f32(50, 96)))
    yield Entry("scatter add of elements", lambda x, i: x.at[i].add(1.0), (f32(64), i32(1000, low=0, high=64)))
    yield Entry("scatter add of integers", lambda x, i: x.at[i].add(3), (i32(64), i32(1000, low=0, high=64)))
    yield Entry("scatter max", lambda x, i, y: x.at[i].max(y), (f32(64), places, f32(50)))
    yield Entry(
        "segment_sum", lambda x, i: jax.ops.segment_sum(x, i, num_segments=20), (f32(500), i32(500, low=0, high=20))
    )
    yield Entry("bincount", lambda i: np.bincount(i, length=32), (i32(1000, low=0, high=32),))


def movement(jax: Any) -> Iterator[Entry]:
    np, nn = jax.numpy, jax.nn
    yield Entry("transpose", lambda x, y: (x.T, np.transpose(y, (2, 0, 1))), (MATRIX, f32(5, 37, 19)))
    yield Entry("transpose of complex numbers", lambda x: (x.T, np.real(x).T), (Numbers("c64", (64, 96)),))
    yield Entry("concatenate and stack", lambda x, y: (np.concatenate([x, y]), np.stack([x, y], 1)), (ODD, ODD))
    yield Entry("pad, roll and flip", lambda x: (np.pad(x, 3), np.roll(x, 5, 1), np.flip(x), np.rot90(x)), (ODD,))
    yield Entry(
        "tile, repeat and reshape", lambda x: (np.tile(x, (2, 1)), np.repeat(x, 3, 0), x.reshape(61, 37)), (ODD,)
    )
    yield Entry("tril and diag", lambda x: (np.tril(x), np.triu(x, 3), np.diag(x)), (MATRIX,))
    yield Entry("one_hot", lambda i: nn.one_hot(i, 20), (i32(37, low=0, high=20),))


def cumulative(jax: Any) -> Iterator[Entry]:
    np, lax = jax.numpy, jax.lax
    yield Entry("cumsum of rows", lambda x: np.cumsum(x, axis=1), (MATRIX,))
    yield Entry("cumsum of columns", lambda x: np.cumsum(x, axis=0), (ODD,))
    yield Entry("cumsum of 3001 integers", lambda x: np.cumsum(x), (i32(3001),))
    yield Entry("cumprod and cummax", lambda x: (np.cumprod(x, 1), lax.cummax(x, 0), lax.cummin(x, 1, reverse=True)),
                (f32(37, 61, low=0.9, high=1.1),))  # fmt: skip
    yield Entry("associative_scan", lambda x, y: lax.associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (x, y)),
                (f32(61, 37, low=0.5, high=1.0), f32(61, 37)))  # fmt: skip


def contraction(jax: Any) -> Iterator[Entry]:
    np = jax.numpy

    def pair(dtype: str) -> tuple[Numbers, Numbers]:
        return Numbers(dtype, (64, 96)), Numbers(dtype, (96, 64))

    yield Entry("matmul", lambda x, y: x @ y, pair("f32"))
    yield Entry("matmul of odd sizes", lambda x, y: x @ y, (ODD, f32(61, 29)))
    yield Entry("matmul of 256", lambda x, y: x @ y, (f32(256, 256), f32(256, 256)))
    yield Entry("f16 matmul", lambda x, y: x @ y, pair("f16"), tolerance=4e-3)
    yield Entry("bf16 matmul", lambda x, y: x @ y, pair("bf16"), tolerance=2e-2)
    yield Entry("bf16 matmul to f32", lambda x, y: np.matmul(x, y, preferred_element_type=np.float32), pair("bf16"))
    yield Entry("i32 matmul", lambda x, y: x @ y, (i32(64, 96), i32(96, 64)))
    yield Entry("i8 matmul to i32", lambda x, y: np.matmul(x, y, preferred_element_type=np.int32),
                (Numbers("i8", (64, 96), -100, 100), Numbers("i8", (96, 64), -100, 100)))  # fmt: skip
    yield Entry("tf32 matmul of 256", lambda x, y: np.matmul(x, y, precision="tensorfloat32"), (f32(256, 256), f32(256, 256)),
                tolerance=4e-3)  # fmt: skip
    yield Entry("i8 matmul of 256 to i32", lambda x, y: np.matmul(x, y, preferred_element_type=np.int32),
                (Numbers("i8", (256, 256), -100, 100),) * 2)  # fmt: skip
    yield Entry("complex matmul", lambda x, y: x @ y, pair("c64"))
    yield Entry("matrix times vector", lambda x, y: (x @ y, y @ x.T), (MATRIX, f32(96)))
    yield Entry("batched matmul", lambda x, y: x @ y, (f32(5, 37, 19), f32(5, 19, 23)))
    yield Entry("einsum", lambda x, y: np.einsum("bik,bjk->ijb", x, y), (f32(5, 37, 19), f32(5, 23, 19)))
    yield Entry("dense layer", lambda x, w, b: jax.nn.gelu(x @ w + b), (MATRIX, f32(96, 64), f32(64)))


def convolution(jax: Any) -> Iterator[Entry]:
    lax, np = jax.lax, jax.numpy
    images, filters = f32(2, 3, 17, 19), f32(8, 3, 3, 3)

    def conv(x: Any, w: Any, **options: Any) -> Any:
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", **options)

    def loss(x: Any, w: Any) -> Any:
        return np.sum(np.sin(conv(x, w)))

    def last(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    yield Entry("conv", conv, (images, filters))
    yield Entry("conv with strides", last, (f32(2, 17, 19, 4), f32(3, 3, 4, 8)))
    yield Entry("conv by channel", lambda x, w: conv(x, w, feature_group_count=3), (images, f32(6, 1, 3, 3)))
    yield Entry("conv of one dimension", lambda x, y: np.convolve(x, y), (f32(97), f32(11)))
    yield Entry("grad of conv", jax.grad(loss, (0, 1)), (images, filters), tolerance=1e-4)


def networks(jax: Any) -> Iterator[Entry]:
    np, nn, lax = jax.numpy, jax.nn, jax.lax
    heads = f32(2, 64, 16)

    def attention(q: Any, k: Any, v: Any) -> Any:
        return nn.softmax(np.einsum("hqd,hkd->hqk", q, k) / 4.0) @ v

    def layer_norm(x: Any) -> Any:
        return (x - np.mean(x, -1, keepdims=True)) * lax.rsqrt(np.var(x, -1, keepdims=True) + 1e-5)

    def mlp(x: Any, w: Any, v: Any) -> Any:
        return np.mean(nn.log_softmax(np.tanh(x @ w) @ v)[:, 0])

    def pool(x: Any) -> Any:
        return lax.reduce_window(x, -np.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "SAME")

    yield Entry("softmax", nn.softmax, (MATRIX,))
    yield Entry("log_softmax", nn.log_softmax, (ODD,))
    yield Entry("layer norm", layer_norm, (MATRIX,))
    yield Entry("attention", attention, (heads, heads, heads))
    yield Entry("causal attention", lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True),
                (f32(2, 37, 3, 16), f32(2, 37, 3, 16), f32(2, 37, 3, 16)))  # fmt: skip
    yield Entry("grad of attention", jax.grad(lambda *qkv: np.sum(np.sin(attention(*qkv))), (0, 1, 2)), (heads, heads, heads),
                tolerance=1e-4)  # fmt: skip
    yield Entry("grad of a network", jax.grad(mlp, (1, 2)), (MATRIX, f32(96, 37, low=-0.2, high=0.2), f32(37, 11)),
                tolerance=1e-4)  # fmt: skip
    yield Entry("max pooling", pool, (f32(2, 3, 17, 19),))
    yield Entry("grad of max pooling", jax.grad(lambda x: np.sum(np.sin(pool(x)))), (f32(2, 3, 17, 19),))
    yield Entry("mean pooling", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4,
                (f32(2, 16, 18, 5),))  # fmt: skip


def fourier(jax: Any) -> Iterator[Entry]:
    fft = jax.numpy.fft
    yield Entry("fft", lambda x: fft.fft(x), (Numbers("c64", (64, 96)),))
    yield Entry("rfft and irfft", lambda x: (fft.rfft(x), fft.irfft(fft.rfft(x) * 2)), (MATRIX,))
    yield Entry("fft2", lambda x: fft.fft2(x), (Numbers("c64", (64, 96)),))


def randomness(jax: Any) -> Iterator[Entry]:
    random, np = jax.random, jax.numpy
    yield Entry("random bits", lambda k: random.bits(random.wrap_key_data(k), (37, 61)), (KEY,))
    yield Entry("random uniform", lambda k: random.uniform(random.wrap_key_data(k), (64, 96)), (KEY,))
    yield Entry("random normal", lambda k: random.normal(random.wrap_key_data(k), (64, 96)), (KEY,), tolerance=1e-4)
    yield Entry("random permutation", lambda k: random.permutation(random.wrap_key_data(k), np.arange(500)), (KEY,))


def control_flow(jax: Any) -> Iterator[Entry]:
    np, lax = jax.numpy, jax.lax

    def newton(x: Any) -> Any:
        return lax.fori_loop(0, 12, lambda _, r: 0.5 * (r + x / r), x)

    def collatz(n: Any) -> Any:
        def step(s: Any) -> Any:
            return np.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1

        return lax.while_loop(lambda s: s[0] > 1, step, (n, 0))[1]

    def rnn(w: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = np.tanh(h @ w + x)
            return h, h

        return lax.scan(step, np.zeros(xs.shape[1:]), xs)

    weights, inputs = f32(37, 37, low=-0.3, high=0.3), f32(11, 5, 37)
    yield Entry("fori_loop", newton, (f32(64, 96, low=0.5, high=9),))
    yield Entry("while_loop", jax.vmap(collatz), (i32(64, low=1, high=100),))
    yield Entry("scan", rnn, (weights, inputs))
    yield Entry("grad of scan", jax.grad(lambda w, x: np.sum(rnn(w, x)[1] ** 2)), (weights, inputs), tolerance=2e-4)
    yield Entry("cond", lambda x, y: lax.cond(np.sum(x) > np.sum(y), lambda: x + y, lambda: x - 2 * y), (ODD, ODD))
    yield Entry(
        "switch", lambda i, x: lax.switch(i[0], [np.sin, np.cos, lambda x: x * 3], x), (i32(1, low=1, high=2), ODD)
    )


def linear_algebra(jax: Any) -> Iterator[Entry]:
    np, linalg = jax.numpy, jax.numpy.linalg
    square, right = f32(32, 32), f32(32, 5)

    def positive(x: Any) -> Any:
        return x @ x.T / 8 + np.eye(len(x))

    def regular(x: Any) -> Any:
        return x / 8 + 2 * np.eye(len(x))

    def eigh(x: Any) -> Any:
        w, v = linalg.eigh(x + x.T)
        return w, (v * w) @ v.T

    def qr(x: Any) -> Any:
        q, r = linalg.qr(x)
        return q @ r, np.abs(r)

    def svd(x: Any) -> Any:
        u, s, v = linalg.svd(x, full_matrices=False)
        return s, (u * s) @ v

    yield Entry("det", lambda x: linalg.det(regular(x)), (square,), tolerance=1e-3)
    yield Entry("inv", lambda x: linalg.inv(regular(x)), (square,), tolerance=1e-4)
    yield Entry("solve", lambda x, y: linalg.solve(regular(x), y), (square, right), tolerance=1e-4)
    yield Entry("cholesky", lambda x: linalg.cholesky(positive(x)), (square,), tolerance=1e-4)
    yield Entry("triangular solve", lambda x, y: jax.scipy.linalg.solve_triangular(regular(x), y, lower=True), (square, right),
                tolerance=1e-4)  # fmt: skip
    yield Entry("qr", qr, (f32(32, 20),), tolerance=1e-4)
    yield Entry("eigh", eigh, (square,), tolerance=1e-4)
    yield Entry("svd", svd, (f32(32, 20),), tolerance=1e-4)


def derivatives(jax: Any) -> Iterator[Entry]:
    np = jax.numpy

    def rosenbrock(x: Any) -> Any:
        return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    yield Entry("hessian", jax.hessian(rosenbrock), (f32(64),))
    yield Entry("jacobian", jax.jacfwd(lambda x: np.sin(x) * np.sum(x)), (f32(37),))
    yield Entry("grads by vmap", jax.vmap(jax.grad(lambda x: np.sum(np.tanh(x) ** 2))), (MATRIX,))


def wide(jax: Any) -> Iterator[Entry]:
    """64-bit dtypes."""
    np = jax.numpy
    yield Entry("f64 sum of f32", lambda x: np.sum(x.astype("float64")), (MATRIX,), x64=True, tolerance=1e-12)
    yield Entry("f64 arithmetic", lambda x, y: (x * y - x, np.sqrt(abs(x)), x @ y.T),
                (Numbers("f64", (64, 96)), Numbers("f64", (64, 96))), x64=True, tolerance=1e-12)  # fmt: skip
    yield Entry("f64 solve", lambda x, y: np.linalg.solve(x / 8 + 2 * np.eye(32), y),
                (Numbers("f64", (32, 32)), Numbers("f64", (32, 5))), x64=True, tolerance=1e-10)  # fmt: skip
    yield Entry("i64 arithmetic", lambda x, y: (x * y, x // y, np.sum(x)),
                (Numbers("i64", (37, 61), -(10**12), 10**12), Numbers("i64", (37, 61), 1, 10**6)), x64=True)  # fmt: skip
