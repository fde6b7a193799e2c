"""quire.numpy.fft: discrete Fourier transforms, with the names and semantics of numpy.fft and jax.numpy.fft."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.primitives import fft as ff
from quire.ir.primitives import structural as st
from quire.ir.primitives.fft import FftType

from ..absent_names import module_getattr
from ..arrays.operands import Value, as_axes, as_axis, cast, ensure, user_dtype
from ._ops import div_, mul_
from .from_values import asarray
from .parts import conj
from .ranges import arange
from .rearranging import roll
from .shapes import moveaxis

_NORMS = ("backward", "ortho", "forward")


def _operand(name: str, a: Any, kind: FftType) -> Value:
    """The array, complex or (for a transform of real numbers) float, of single or double precision."""
    x = ensure(f"fft.{name}", a)
    d = x.aval.dtype
    if kind is FftType.RFFT and dtypes.is_complex(d):
        raise ValueError(f"quire.numpy.fft.{name}: only real input is supported, got {x.aval.short()}: use fft")
    wide = dtypes.complex_dtype(d)
    return cast(x, dtypes.real_dtype(wide) if kind is FftType.RFFT else wide)


def _sizes(name: str, s: Any, what: str) -> tuple[int, ...]:
    try:
        sizes = tuple(operator.index(n) for n in s)
    except TypeError:
        raise TypeError(f"quire.numpy.fft.{name}: {what} must be integers known when tracing, got {s!r}") from None
    if any(n <= 0 for n in sizes):
        raise ValueError(f"quire.numpy.fft.{name}: {what} must be positive, got {sizes}")
    return sizes


def _resized(x: Value, sizes: Sequence[int]) -> Value:
    """The last dimensions cut, or filled up with zeros, to these sizes."""
    lead = x.aval.ndim - len(sizes)
    if all(n == x.aval.shape[lead + i] for i, n in enumerate(sizes)):
        return x
    config = [(0, 0, 0)] * lead + [(0, n - x.aval.shape[lead + i], 0) for i, n in enumerate(sizes)]
    return st.pad(x, x.aval.dtype.type(0), config)


def _nested(x: Value, kind: FftType, sizes: tuple[int, ...]) -> Value:
    """The transform over the last dimensions, however many: the primitive takes at most three."""
    if len(sizes) <= 3:
        return ff.fft(x, kind, sizes)
    n = x.aval.ndim
    others = range(n - len(sizes), n - 3)
    ends = range(n - len(others), n)
    # The transform of real numbers is that of the last dimension, and comes first (or last, back to real numbers).
    inverse = kind in (FftType.IFFT, FftType.IRFFT)
    if not inverse:
        x = ff.fft(x, kind, sizes[-3:])
    x = moveaxis(x, tuple(others), tuple(ends))
    x = _nested(x, FftType.IFFT if inverse else FftType.FFT, sizes[:-3])
    x = moveaxis(x, tuple(ends), tuple(others))
    return ff.fft(x, kind, sizes[-3:]) if inverse else x


def _scale(name: str, norm: Any, sizes: Sequence[int], inverse: bool) -> float:
    if norm is not None and norm not in _NORMS:
        raise ValueError(f"quire.numpy.fft.{name}: norm must be one of {', '.join(map(repr, _NORMS))}, got {norm!r}")
    n = float(math.prod(sizes))
    scale = {None: 1.0, "backward": 1.0, "ortho": 1 / math.sqrt(n) if n else 1.0, "forward": 1 / n if n else 1.0}[norm]
    return 1 / scale if inverse else scale


def _transform(name: str, kind: FftType, a: Any, s: Any, axes: Any, norm: Any, factor: Any = None) -> Value:
    """`factor(sizes)` multiplies the result."""
    x = _operand(name, a, kind)
    ndim = x.aval.ndim
    sizes = None if s is None else _sizes(name, s, "the sizes s")
    if axes is None:
        axes = range(ndim) if sizes is None else range(ndim - len(sizes), ndim)
    if sizes is not None and len(sizes) != len(axes):
        raise ValueError(f"quire.numpy.fft.{name}: s {sizes} and axes {tuple(axes)} have different lengths")
    where = as_axes(f"fft.{name}", tuple(axes), ndim, "axes")
    if not where:
        return x
    last = tuple(range(ndim - len(where), ndim))
    x = moveaxis(x, where, last)
    shape = x.aval.shape[ndim - len(where) :]
    if sizes is None:
        sizes = (*shape[:-1], max(0, 2 * (shape[-1] - 1))) if kind is FftType.IRFFT else shape
    x = _resized(x, (*sizes[:-1], sizes[-1] // 2 + 1 if sizes[-1] else 0) if kind is FftType.IRFFT else sizes)
    out = _nested(x, kind, tuple(sizes))
    scale = _scale(name, norm, sizes, name.startswith("i")) * (1.0 if factor is None else factor(sizes))
    if scale != 1.0:
        out = mul_(out, out.aval.dtype.type(scale))
    return moveaxis(out, last, where)


# -- one axis -----------------------------------------------------------------------------------------------------------------

_ONE = """{what}

    Args:
        a: an array{real}.
        n: the number of elements of {which}: more are cut, fewer filled up with zeros; None for {default}.
        axis: the axis of the transform.
        norm: where the factor 1/n is: "backward" (None), in the inverse; "forward", in the other; "ortho", its root in both.

    Returns an array of {returns}.

    Raises:
        ValueError: n is not positive, the axis is out of bounds, or norm is unknown.

    Follows `numpy.fft.{name}`.

    >>> quire.numpy.fft.{name}({example}
    """


def _one_axis(name: str, kind: FftType, factor: Any = None, conjugate: str = "", **words: str) -> Callable[..., Value]:
    def f(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Value:
        if isinstance(axis, Sequence | np.ndarray):
            raise ValueError(f"quire.numpy.fft.{name}: axis must be one integer, got {axis!r}: use {name}n for several")
        x = ensure(f"fft.{name}", a)
        d = as_axis(f"fft.{name}", axis, x.aval.ndim)
        if conjugate == "before":
            x = conj(x)
        out = _transform(name, kind, x, None if n is None else (n,), (d,), norm, factor)
        return conj(out) if conjugate == "after" else out

    f.__name__ = f.__qualname__ = name
    words = {"real": "", "which": "the axis", "default": "that of a", "returns": "a complex dtype"} | words
    f.__doc__ = _ONE.format(name=name, **words)
    return f


_CALL = "quire.numpy.array([1., 2., 3., 4.]))\n    "
fft = _one_axis(
    "fft", FftType.FFT, what="The discrete Fourier transform along an axis, sum_j a[j] exp(-2 pi i j k / n).",
    example=_CALL + "Array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], dtype=complex64)",
)  # fmt: skip
ifft = _one_axis(
    "ifft", FftType.IFFT, what="The inverse of `fft`.",
    example="quire.numpy.array([4., 0.]))\n    Array([2.+0.j, 2.+0.j], dtype=complex64)",
)  # fmt: skip
rfft = _one_axis(
    "rfft", FftType.RFFT, what="The first n // 2 + 1 elements of `fft` of real numbers: the others are their conjugates.",
    real=" of real numbers", example=_CALL + "Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)",
)  # fmt: skip
irfft = _one_axis(
    "irfft", FftType.IRFFT, what="The inverse of `rfft`.", which="the result's axis", default="2 * (that of a - 1)",
    returns="a float dtype",
    example="quire.numpy.array([10, -2 + 2j, -2]))\n    Array([1., 2., 3., 4.], dtype=float32)",
)  # fmt: skip
hfft = _one_axis(
    "hfft", FftType.IRFFT, lambda sizes: sizes[-1], "before", returns="a float dtype", which="the result's axis",
    what="`fft` of a signal whose second half is the conjugate of the first; only the first is given.",
    default="2 * (that of a - 1)",
    example="quire.numpy.array([1., 2., 3.]))\n    Array([ 8., -2.,  0., -2.], dtype=float32)",
)  # fmt: skip
ihfft = _one_axis(
    "ihfft", FftType.RFFT, lambda sizes: 1 / sizes[-1], "after", what="The inverse of `hfft`.", real=" of real numbers",
    example="quire.numpy.array([8., -2., 0., -2.])).real\n    Array([1., 2., 3.], dtype=float32)",
)  # fmt: skip

# -- several axes -------------------------------------------------------------------------------------------------------------

_MANY = """{what}

    Args:
        a: an array{real}.
        s: the sizes of the axes{result}: more elements are cut, fewer filled up with zeros; None for those of a.
        axes: the axes of the transform{default}.
        norm: as that of `fft`.

    Returns an array of {returns}.

    Raises:
        ValueError: s and axes do not fit, an axis is out of bounds or repeated, or norm is unknown.

    Follows `numpy.fft.{name}`.

    >>> quire.numpy.fft.{name}({example}
    """


def _many_axes(name: str, kind: FftType, two: bool, **words: str) -> Callable[..., Value]:
    if two:

        def f(a: Any, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Value:  # pyright: ignore
            if len(axes) != 2:
                raise ValueError(f"quire.numpy.fft.{name}: axes must be two, got {tuple(axes)}: use {name[:-1]}n")
            return _transform(name, kind, a, s, axes, norm)

    else:

        def f(a: Any, s: Any = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Value:
            return _transform(name, kind, a, s, axes, norm)

    f.__name__ = f.__qualname__ = name
    words = {"real": "", "result": "", "returns": "a complex dtype"} | words
    words["default"] = "" if two else "; for None the last ones (as many as s has), or all"
    f.__doc__ = _MANY.format(name=name, **words)
    return f


def _pair(stem: str, kind: FftType, what: str, example: str, **words: str) -> tuple[Callable[..., Value], ...]:
    return tuple(
        _many_axes(
            f"{stem}{end}",
            kind,
            end == "2",
            what=what.format("two" if end == "2" else "several"),
            example=example,
            **words,
        )
        for end in "2n"
    )


fft2, fftn = _pair(
    "fft", FftType.FFT, "The discrete Fourier transform along {} axes.",
    "quire.numpy.eye(2)).real\n    Array([[2., 0.],\n           [0., 2.]], dtype=float32)",
)  # fmt: skip
ifft2, ifftn = _pair(
    "ifft", FftType.IFFT, "The inverse of the discrete Fourier transform along {} axes.",
    "2 * quire.numpy.eye(2)).real\n    Array([[1., 0.],\n           [0., 1.]], dtype=float32)",
)  # fmt: skip
rfft2, rfftn = _pair(
    "rfft", FftType.RFFT, "The discrete Fourier transform of real numbers along {} axes, half of the last one.",
    "quire.numpy.ones((2, 4))).real\n    Array([[8., 0., 0.],\n           [0., 0., 0.]], dtype=float32)",
    real=" of real numbers",
)  # fmt: skip
irfft2, irfftn = _pair(
    "irfft", FftType.IRFFT, "The inverse of the discrete Fourier transform of real numbers along {} axes.",
    "quire.numpy.array([[8., 0., 0.]]), s=(1, 4))\n    Array([[2., 2., 2., 2.]], dtype=float32)",
    result=" of the result", returns="a float dtype",
)  # fmt: skip

# -- frequencies --------------------------------------------------------------------------------------------------------------


def _frequencies(name: str, first: int, n: Any, d: Any, dtype: Any, device: Any) -> Value:
    kind = dtypes.canonicalize(dtypes.float64) if dtype is None else user_dtype(f"fft.{name}", dtype)
    i = asarray(arange(first, first + (n if name == "fftfreq" else n // 2 + 1)), device=device)
    if name == "fftfreq":
        i = roll(i, first)
    return div_(cast(i, kind), cast(mul_(ensure(f"fft.{name}", d, "d"), n), kind))


def _count(name: str, n: Any) -> int:
    try:
        count = operator.index(n)
    except TypeError:
        raise ValueError(f"quire.numpy.fft.{name}: n must be an integer known when tracing, got {n!r}") from None
    if count < 0:
        raise ValueError(f"quire.numpy.fft.{name}: n must not be negative, got {count}")
    return count


def fftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Value:
    """The frequencies of the elements of `fft`: 0, 1, ..., -2, -1 over n * d.

    Args:
        n: the number of elements. d: the distance of the samples.
        dtype, device: those of the result.

    Follows `numpy.fft.fftfreq`.

    >>> quire.numpy.fft.fftfreq(4)
    Array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    count = _count("fftfreq", n)
    return _frequencies("fftfreq", -(count // 2), count, d, dtype, device)


def rfftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Value:
    """The frequencies of the elements of `rfft`: 0, 1, ..., n // 2 over n * d; arguments as those of `fftfreq`.

    Follows `numpy.fft.rfftfreq`.

    >>> quire.numpy.fft.rfftfreq(4)
    Array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    return _frequencies("rfftfreq", 0, _count("rfftfreq", n), d, dtype, device)


def _shifted(name: str, x: Any, axes: Any, part: Callable[[int], int]) -> Value:
    x = ensure(f"fft.{name}", x)
    where = as_axes(f"fft.{name}", axes, x.aval.ndim, "axes")
    return roll(x, tuple(part(x.aval.shape[d]) for d in where), where) if where else x


def fftshift(x: Any, axes: Any = None) -> Value:
    """Move the frequency 0 to the middle of some axes (all for None). Follows `numpy.fft.fftshift`.

    >>> quire.numpy.fft.fftshift(quire.numpy.fft.fftfreq(4))
    Array([-0.5 , -0.25,  0.  ,  0.25], dtype=float32)
    """
    return _shifted("fftshift", x, axes, lambda n: n // 2)


def ifftshift(x: Any, axes: Any = None) -> Value:
    """The inverse of `fftshift`. Follows `numpy.fft.ifftshift`.

    >>> quire.numpy.fft.ifftshift(quire.numpy.array([-1., 0., 1.]))
    Array([ 0.,  1., -1.], dtype=float32)
    """
    return _shifted("ifftshift", x, axes, lambda n: -(n // 2))


__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

__getattr__ = module_getattr("quire.numpy.fft", globals())
