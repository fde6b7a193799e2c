"""Functions of all families of quire.numpy in one compiled function: the same results as when run eagerly."""

from __future__ import annotations

import numpy as np
import pytest

import quire
import quire.numpy as qnp

from .numpy_cases import array_of, same

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) * 7 % 11 - 4  # rows without ties
M = array_of("float32", 3, 3, seed=1)
V = np.array([0.5, -1.5, 2.0, 3.5], np.float32)
N = np.array([[3, -1, 4], [1, -5, 2]], np.int32)
K = np.array([2, 0, 1, 5], np.int32)
B = array_of("bool", 2, 3, seed=2)
C = array_of("complex64", 3)
A = np.array([1.0, np.nan, -2.0, 0.5], np.float32)
S = np.array([-1.0, 0.0, 1.0, 2.5], np.float32)

EXPRESSIONS = """
    sum(x, axis=1) | prod(n, axis=0, dtype="float32") | max(x, axis=(0, 2), keepdims=True) | min(n)
    all(b, axis=0) | any(n > 3)
    mean(x, axis=-1) | var(x, axis=0) | std(v, ddof=1) | ptp(x, axis=1)
    argmax(x, axis=1) | argmin(n) | count_nonzero(n, axis=1)
    sum(x, axis=1, where=x > 0) | max(x, axis=0, where=x > 0, initial=0.0) | cumsum(x, axis=1)
    cumprod(v) | cumulative_sum(k)
    nansum(a) | nanmean(a) | nanmax(a) | nanargmin(a) | nancumsum(a)
    nanstd(a) | isclose(v, s) | allclose(v, v) | isin(n, k)
    array_equal(v, s) | nan_to_num(a) | isfinite(a) | iscomplex(c)
    reshape(x, (4, 6), order="F") | ravel(n) | transpose(x, (1, 2, 0))
    moveaxis(x, 0, -1) | swapaxes(x, 0, 2) | squeeze(x[:1]) | expand_dims(n, (0, 2)) | broadcast_to(v, (2, 4))
    concatenate([n, n], axis=1) | stack([v, s], axis=-1) | vstack([v, s]) | hstack([v, s])
    dstack([v, s]) | append(n, n, axis=0)
    block([[n, n], [n, n]]) | split(v, 2)[1] | array_split(v, 3)[0] | tile(v, (2, 2)) | repeat(n, 2, axis=1)
    repeat(v, k, total_repeat_length=9) | flip(x, 1) | rot90(m) | roll(x, 2, axis=-1)
    resize(v, (2, 3)) | astype(v, "int32")
    where(n > 0, n, 0.5) | select([n > 2, n > 0], [n, -n], 7) | clip(v, -1, s)
    nonzero(n > 0, size=4)[1] | flatnonzero(b, size=3)
    take(v, k, mode="clip") | take(x, k[:2], axis=1) | take_along_axis(x, argsort(x, axis=1), axis=1)
    compress(b[0], n, 1, size=2)
    put_along_axis(n, argmax(n, axis=1, keepdims=True), 0, axis=1, inplace=False) | put(n, k, 9, mode="wrap", inplace=False)
    
    place(v, v > 1, 0.0, inplace=False) | delete(v, 1) | insert(v, 2, 9.0) | diag(v, 1) | diagonal(m)
    trace(m) | tril(m, -1) | triu(m)
    fill_diagonal(m, 2.0, inplace=False) | unravel_index(k, (2, 3))[0] | matmul(x, x.mT) | dot(m, m)
    vdot(c, c) | vecdot(v, s)
    inner(v, s) | outer(v, s) | kron(m, v[:2]) | tensordot(x, x, axes=((0, 2), (0, 2)))
    cross(m, m[0]) | einsum("abc,dbc,d->ad", x, x, v[:2])
    einsum("ii->i", m) | sort(x, axis=1) | argsort(v) | sort(a) | lexsort((v, k))
    partition(v, 2)[2] | searchsorted(s, v) | sort(n)
    searchsorted(s, v, side="right") | quantile(x, v[0] / 4, axis=0) | median(x, axis=-1)
    nanmedian(a) | percentile(v, 30)
    average(x, axis=1, weights=abs(x) + 1) | cov(m) | corrcoef(abs(m) + x[0, :, :3])
    bincount(k, length=6) | digitize(v, s)
    histogram(x, 4)[0] | histogram_bin_edges(v, 3) | diff(x, n=2) | ediff1d(k)
    trapezoid(v, s) | interp(v, s, v) | vander(v, 3)
    arange(5) * k[0] | linspace(v[0], v[2], 5) | full_like(n, 3) | ones_like(v)
    eye(3) @ m | meshgrid(v, s)[1] | indices((2, 3))[1] + n
"""  # fmt: skip
TEXTS = [e.strip() for line in EXPRESSIONS.split("\n") for e in line.split(" | ") if e.strip()]
GIVEN = {"x": X, "m": M, "v": V, "n": N, "k": K, "b": B, "c": C, "a": A, "s": S}


@pytest.fixture(scope="module")
def compiled():
    codes = [compile(text, text, "eval") for text in TEXTS]

    @quire.jit
    def everything(given):
        return [eval(code, vars(qnp), given) for code in codes]

    return dict(zip(TEXTS, everything(GIVEN), strict=True))


@pytest.mark.parametrize("text", TEXTS)
def test_compiled_as_eager(text, compiled):
    want = eval(text, vars(qnp), {name: qnp.asarray(x) for name, x in GIVEN.items()})
    assert not same(compiled[text], want, rtol=2e-5, atol=2e-5)
