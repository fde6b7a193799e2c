"""fft: compiled against the reference against NumPy in double precision, for lengths of every kind; type errors."""

import dataclasses
import re

import numpy as np
import pytest

from quire.backends import targets
from quire.backends.stablehlo import lower_module
from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.config import config
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import fft as ff
from quire.ir.primitives import structural as st
from tests.helpers import Case, check, trace

RNG = np.random.default_rng(0)
NUMPY = {
    "FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn,
    "IRFFT": lambda x, s, axes: np.fft.irfft(
        np.fft.ifftn(x, axes=axes[:-1]) if len(axes) > 1 else x, s[-1], axis=-1
    ),
}  # fmt: skip


def case(kind, lengths, batch=(2,), double=False):
    real = np.float64 if double else np.float32
    shape = lengths
    if kind == "IRFFT":
        shape = (*lengths[:-1], lengths[-1] // 2 + 1)
    x = RNG.normal(size=(*batch, *shape))
    x = (
        x.astype(real)
        if kind == "RFFT"
        else (x + 1j * RNG.normal(size=x.shape)).astype(np.result_type(real, np.complex64))
    )
    axes = tuple(range(len(batch), len(batch) + len(lengths)))
    out = {"RFFT": np.complex64, "IRFFT": np.float32}.get(kind, np.complex64)
    if double:
        out = np.result_type(out, np.float64)

    def expect(x):
        wide = x.astype(np.float64 if kind == "RFFT" else np.complex128)
        return NUMPY[kind](wide, s=lengths, axes=axes).astype(out)

    # The error is relative to the largest values of the spectrum, and grows with the logarithm of the length.
    size = float(np.sqrt(np.prod(lengths)))
    atol = (1e-13 if double else 1e-6) * (1 / size if kind in ("IFFT", "IRFFT") else size) * 6
    return Case(f"{kind} {lengths}", lambda x: ff.fft(x, kind, lengths), [x], expect, 0.0, atol)


def lower(f, x):
    return lower_module(trace(f, [x]), targets.get_target("cpu"), name="f").text()


KINDS = ["FFT", "IFFT", "RFFT", "IRFFT"]
# Lengths for every form of the kernel: short and long rows, even and odd, convolutions (tests/backends/kernels/test_fft.py
# has the radices).
LENGTHS = [1, 6, 101, 320]


def test_lengths():
    check([case(kind, (n,)) for kind in KINDS for n in LENGTHS])


def test_double_precision():
    with config.override(enable_x64=True):
        check([case(kind, (n,), double=True) for kind in KINDS for n in (5, 360)])


def test_several_dimensions():
    check([case(kind, lengths, batch) for kind in KINDS
           for lengths, batch in (((4, 6), (2,)), ((3, 16, 20), ()))])  # fmt: skip


def test_long():
    """A power of two beyond the cache, and a large prime: n^2 operations would take minutes."""
    check([case("FFT", (1 << 17,), ()), case("FFT", (30011,), ()), case("IFFT", (44100,), ())])


def test_where_the_dimensions_lie():
    """Dimensions that are moved to the end and back are transformed in place; real numbers are transformed as such."""

    def along(dims, kind):
        def f(x):
            order = [d for d in range(x.ndim) if d not in dims] + list(dims)
            y = ff.fft(st.transpose(x, order), kind, tuple(x.aval.shape[d] for d in dims))
            return st.transpose(y, [order.index(d) for d in range(x.ndim)])

        return f

    z = (RNG.normal(size=(3, 18, 20)) + 1j * RNG.normal(size=(3, 18, 20))).astype(np.complex64)
    x = RNG.normal(size=(4, 33)).astype(np.float32)
    widened = lambda x: ew.convert_element_type(x, dtypes.complex64)  # noqa: E731
    cases = [
        Case("axis 1", along((1,), "FFT"), [z], lambda z: np.fft.fft(z, axis=1).astype(z.dtype), 0.0, 1e-4),
        Case("axes 2, 0", along((2, 0), "IFFT"), [z], lambda z: np.fft.ifftn(z, axes=(2, 0)).astype(z.dtype), 0.0, 1e-5),
        Case("real", lambda x: ff.fft(widened(x), "FFT", (4, 33)), [x], lambda x: np.fft.fft2(x).astype(z.dtype), 0.0, 1e-4),
        Case("inverse of real", lambda x: ff.fft(widened(x), "IFFT", (33,)), [x],
             lambda x: np.fft.ifft(x).astype(z.dtype), 0.0, 1e-5),
    ]  # fmt: skip
    check(cases)
    text = lower(along((1,), "FFT"), z)
    assert re.search(r"flow.dispatch .*\(%arg0, .*columns, 18 = 2 x 3 x 3.*tensor<3x18x20xcomplex<f32>>, ", text)
    text = lower(lambda x: ff.fft(widened(x), "FFT", (33,)), x)
    assert re.search(r"flow.dispatch .*\(tensor<4x33xf32>, ", text)


@pytest.fixture
def without_kernels(monkeypatch):
    monkeypatch.setitem(targets.TARGETS, "cpu", dataclasses.replace(targets.TARGETS["cpu"], kernels=False))


def test_the_stablehlo_forms_give_the_same(without_kernels):
    """Lengths of IREE's own, one product, products of products, convolutions, and the ends of real transforms."""
    check([
        *(case(kind, (n,)) for kind, n in (("FFT", 16), ("IFFT", 100), ("FFT", 101), ("RFFT", 9), ("IRFFT", 10))),
        case("FFT", (1 << 17,), ()), case("RFFT", (6, 5)), case("IRFFT", (3, 5)),
    ])  # fmt: skip
    assert "no kernel: the target has no kernels" in lower(lambda x: ff.fft(x, "FFT", (6,)), np.ones(6, np.complex64))


def test_empty():
    check([case("FFT", (4,), (0,)), case("RFFT", (4,), (0, 2)), case("IRFFT", (5,), (0,))])


def test_irfft_ignores_imaginary_parts_that_a_real_signal_cannot_have():
    x = np.array([1 + 5j, 2 - 1j, 3 + 7j], np.complex64)
    clean = np.array([1, 2 - 1j, 3], np.complex64)
    check([Case("irfft", lambda x: ff.fft(x, "IRFFT", (4,)), [x],
                lambda _: np.fft.irfft(clean, 4).astype(np.float32), 1e-6, 1e-6)])  # fmt: skip


@pytest.mark.parametrize(
    "shape, dtype, kind, lengths, message",
    [
        ((3, 4), np.complex64, "FFT", (5,), r"last dimensions of c64\[3,4\] must be \(5,\) for FFT"),
        ((3, 4), np.float32, "FFT", (4,), "fft: operand f32.3,4. has dtype float32, expected a complex dtype"),
        ((3, 4), np.complex64, "RFFT", (4,), "expected one of f32, f64"),
        ((3, 4), np.complex64, "IRFFT", (4,), r"must be \(3,\) for IRFFT"),
        ((4,), np.complex64, "FFT", (4, 4), "needs 2 trailing dimensions"),
        ((2, 2, 2, 2), np.complex64, "FFT", (2, 2, 2, 2), "must have 1 to 3 entries"),
    ],
)
def test_errors(shape, dtype, kind, lengths, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ff.fft_p.infer([ShapedArray(shape, np.dtype(dtype))], {"fft_type": ff.FftType[kind], "fft_lengths": lengths})


def test_unknown_type():
    with pytest.raises(ValueError, match="unknown fft_type 'DCT', expected one of FFT, IFFT, RFFT, IRFFT"):
        ff.as_fft_type("DCT")
    assert ff.as_fft_type("rfft") is ff.FftType.RFFT and ff.as_fft_type(3) is ff.FftType.IRFFT
