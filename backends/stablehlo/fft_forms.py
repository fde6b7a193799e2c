"""Fourier transforms in StableHLO, for targets and lengths without a kernel.

IREE transforms single precision, powers of two, on the CPU only. Everything else is made of matrix products and
elementwise operations on the real and imaginary parts: lengths up to 64 are one product with the matrix of the
transform; a product of such lengths is split by Cooley and Tukey's scheme; a length with a larger prime factor becomes
a convolution of a power of two (Bluestein 1970), so that no length costs its square.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.dtypes import DType
from quire.ir.primitives.fft import FftType

from . import contraction, hlo

Parts = tuple[Any, Any]  # real and imaginary part of a tensor

DIRECT = 64
"""Lengths up to this are one matrix product."""
NATIVE = 1 << 16
"""IREE's own transform is used up to this length."""


# -- constants ------------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=32)
def _roots(n: int) -> np.ndarray[Any, Any]:
    """exp(-2 pi i k / n) for k < n, in double precision."""
    return np.exp(-2j * np.pi * np.arange(n) / n)


def _matrix(n: int, sign: int, dtype: DType) -> Any:
    """The (2n, 2n) matrix that maps rows of (real parts, imaginary parts) to their transform."""
    k = np.arange(n)
    w = _roots(n)[np.outer(k, k) % n]
    re, im = w.real, sign * w.imag
    return hlo.constant(np.block([[re, im], [-im, re]]), dtype)


def _constant_parts(z: np.ndarray[Any, Any], sign: int, dtype: DType) -> Parts:
    return hlo.constant(z.real, dtype), hlo.constant(sign * z.imag, dtype)


# -- transforms of the last dimension -----------------------------------------------------------------------------------------


def _multiply(x: Parts, y: Parts) -> Parts:
    """The product with a constant of the trailing dimensions."""
    shape = hlo.shape_of(x[0])
    rank = len(hlo.shape_of(y[0]))
    re, im = (hlo.broadcast(p, shape, range(len(shape) - rank, len(shape))) for p in y)
    return (
        hlo.subtract(hlo.multiply(x[0], re), hlo.multiply(x[1], im)),
        hlo.add(hlo.multiply(x[0], im), hlo.multiply(x[1], re)),
    )


def _direct(x: Parts, n: int, sign: int, dtype: DType) -> Parts:
    rank = len(hlo.shape_of(x[0]))
    both = hlo.concatenate(list(x), rank - 1)
    out = contraction.emit_dot(both, _matrix(n, sign, dtype), (((rank - 1,), (0,)), ((), ())), dtype)
    shape = hlo.shape_of(x[0])
    start = [0] * (rank - 1)
    return hlo.slice(out, [*start, 0], shape), hlo.slice(out, [*start, n], [*shape[:-1], 2 * n])


def _swap_last(x: Parts) -> Parts:
    rank = len(hlo.shape_of(x[0]))
    order = [*range(rank - 2), rank - 1, rank - 2]
    return hlo.transpose(x[0], order), hlo.transpose(x[1], order)


def _reshaped(x: Parts, shape: Sequence[int]) -> Parts:
    return hlo.reshape(x[0], shape), hlo.reshape(x[1], shape)


def _cooley_tukey(x: Parts, n1: int, n2: int, sign: int, dtype: DType, native: bool) -> Parts:
    """Transforms of length n1 over the columns of (n1, n2), twiddle factors, then of length n2 over the rows."""
    batch = hlo.shape_of(x[0])[:-1]
    x = _swap_last(_reshaped(x, [*batch, n1, n2]))
    x = dft(x, sign, dtype, native)  # (n2, n1)
    index = np.outer(np.arange(n2), np.arange(n1))
    x = _multiply(x, _constant_parts(_roots(n1 * n2)[index % (n1 * n2)], sign, dtype))
    x = dft(_swap_last(x), sign, dtype, native)  # (n1, n2)
    return _reshaped(_swap_last(x), [*batch, n1 * n2])


def _bluestein(x: Parts, n: int, sign: int, dtype: DType, native: bool) -> Parts:
    """exp(-2 pi i j k / n) = w(j) w(k) / w(k - j), w(k) = exp(-pi i k^2 / n): a convolution with 1 / w."""
    m = 1 << (2 * n - 2).bit_length()
    k = np.arange(n, dtype=np.int64)
    w = np.exp(-1j * np.pi * ((k * k) % (2 * n)) / n)
    kernel = np.zeros(m, np.complex128)
    kernel[:n] = w.conj()
    kernel[m - n + 1 :] = w[1:][::-1].conj()
    spectrum = np.fft.fft(kernel) / m
    rank = len(hlo.shape_of(x[0]))
    zeros = [0] * rank
    x = _multiply(x, _constant_parts(w, sign, dtype))
    zero = hlo.constant(0, dtype)
    wide = tuple(hlo.pad(p, zero, zeros, [*zeros[:-1], m - n], zeros) for p in x)
    # For the inverse the chirp is conjugated, and so is the spectrum of the conjugated kernel, with its order reversed.
    chosen = spectrum if sign > 0 else np.fft.fft(kernel.conj()) / m
    y = _multiply(dft((wide[0], wide[1]), 1, dtype, native), _constant_parts(chosen, 1, dtype))
    y = dft(y, -1, dtype, native)
    limit = [*hlo.shape_of(x[0])[:-1], n]
    return _multiply((hlo.slice(y[0], zeros, limit), hlo.slice(y[1], zeros, limit)), _constant_parts(w, sign, dtype))


def _native(x: Parts, n: int, sign: int) -> Parts:
    z = hlo.complex(*x)
    kind = hlo.parse_attr(f"#stablehlo<fft_type {'FFT' if sign > 0 else 'IFFT'}>")
    z = hlo.op1("stablehlo.fft", [z], z.type, fft_type=kind, fft_length=hlo.i64_array([n]))
    # IREE's transform works in place: its dispatch fails to compile when a user writes the result into a part of another
    # tensor (a concatenation, a pad), unless that stays outside.
    re, im = hlo.optimization_barrier(hlo.real(z), hlo.imag(z))
    if sign < 0:  # not normalised here
        scale = hlo.full_like(re, n, dtypes.float32)
        re, im = hlo.multiply(re, scale), hlo.multiply(im, scale)
    return re, im


def largest_divisor(n: int, limit: int) -> int:
    """The largest divisor of n that is not above `limit`."""
    return next(d for d in range(min(n, limit), 0, -1) if n % d == 0)


def largest_prime_factor(n: int) -> int:
    """The largest prime that divides n; 1 for n = 1."""
    found, p = 1, 2
    while p * p <= n:
        while n % p == 0:
            found, n = p, n // p
        p += 1
    return max(found, n)


def dft(x: Parts, sign: int, dtype: DType, native: bool) -> Parts:
    """The transform of the last dimension with exp(-sign 2 pi i j k / n), not normalised.

    `native`: powers of two in single precision may be left to IREE.
    """
    n = hlo.shape_of(x[0])[-1]
    if n == 1:
        return x
    power = n & (n - 1) == 0
    if native and power and 8 <= n <= NATIVE:
        return _native(x, n, sign)
    if n <= DIRECT:
        return _direct(x, n, sign, dtype)
    if power and native:
        n1 = 1 << (n.bit_length() // 2)
        return _cooley_tukey(x, n1, n // n1, sign, dtype, native)
    if largest_prime_factor(n) > DIRECT:
        return _bluestein(x, n, sign, dtype, native)
    n1 = largest_divisor(n, DIRECT)
    return _cooley_tukey(x, n1, n // n1, sign, dtype, native)


# -- the whole operation --------------------------------------------------------------------------------------------------------


def _apart(x: Parts, cpu: bool) -> Parts:
    """x, stored before it is transposed but on the CPU: IREE's code for CUDA transposes no parts of complex numbers."""
    if cpu:
        return x
    re, im = hlo.optimization_barrier(*x)
    return re, im


def _along(x: Parts, dim: int, sign: int, dtype: DType, native: bool, cpu: bool) -> Parts:
    """`dft` along any dimension."""
    rank = len(hlo.shape_of(x[0]))
    if dim == rank - 1:
        return dft(x, sign, dtype, native)
    order = [i for i in range(rank) if i != dim] + [dim]
    back = [order.index(i) for i in range(rank)]
    x = _apart(x, cpu)
    y = dft((hlo.transpose(x[0], order), hlo.transpose(x[1], order)), sign, dtype, native)
    return hlo.transpose(y[0], back), hlo.transpose(y[1], back)


def _scaled(x: Any, factor: float, dtype: DType) -> Any:
    return hlo.multiply(x, hlo.full_like(x, factor, dtype))


def _reverse(x: Any, dim: int) -> Any:
    return hlo.op1("stablehlo.reverse", [x], x.type, dimensions=hlo.i64_array([dim]))


def _whole_spectrum(x: Parts, n: int) -> Parts:
    """The n values of a Hermitian spectrum of which the first n/2 + 1 are given."""
    shape = hlo.shape_of(x[0])
    last = len(shape) - 1
    upper = (n + 1) // 2
    if upper <= 1:
        return x
    start, limit = [0] * last, list(shape[:-1])
    re, im = (_reverse(hlo.slice(p, [*start, 1], [*limit, upper]), last) for p in x)
    return hlo.concatenate([x[0], re], last), hlo.concatenate([x[1], hlo.negate(im)], last)


def transform(x: Any, out: ShapedArray, kind: FftType, lengths: Sequence[int], cpu: bool) -> Any:
    """The primitive fft, with the result `out`. `cpu`: IREE's own transform exists."""
    dtype = dtypes.real_dtype(out.dtype)
    native = cpu and dtype == dtypes.float32
    rank = out.ndim
    dims = list(range(rank - len(lengths), rank))
    if kind is FftType.RFFT:
        parts: Parts = (x, hlo.full_like(x, 0, dtype))
        parts = _along(parts, rank - 1, 1, dtype, native, cpu)
        start, limit = [0] * rank, [*hlo.shape_of(x)[:-1], out.shape[-1]]
        parts = (hlo.slice(parts[0], start, limit), hlo.slice(parts[1], start, limit))
        for d in dims[:-1]:
            parts = _along(parts, d, 1, dtype, native, cpu)
        return hlo.complex(*parts)
    parts = (hlo.real(x), hlo.imag(x))
    sign = 1 if kind is FftType.FFT else -1
    for d in dims[:-1]:
        parts = _along(parts, d, sign, dtype, native, cpu)
    if kind is FftType.IRFFT:
        parts = _whole_spectrum(parts, lengths[-1])
    parts = _along(parts, rank - 1, sign, dtype, native, cpu)
    if sign > 0:
        return hlo.complex(*parts)
    count = math.prod(lengths)
    re = _scaled(parts[0], 1 / count, dtype)
    if kind is FftType.IRFFT:
        return re
    return hlo.complex(re, _scaled(parts[1], 1 / count, dtype))
