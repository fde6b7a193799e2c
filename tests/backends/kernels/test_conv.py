"""Convolution kernels through the compiler: forward and both gradients, against the reference and against JAX."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import lax as jax_lax

import quire
import quire.numpy as qnp
from quire import lax
from quire.backends.kernels import (
    CPU_AVX2,
    CPU_AVX512,
    CPU_BASELINE,
    Conv,
    NoKernel,
    Spec,
    convolution,
    dtype_of,
    window,
)
from quire.backends.stablehlo import lower_module
from quire.backends.targets import get_target
from tests.helpers import Case, check, trace

NHWC, NCHW = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")
LINE, SPACE = ("NWC", "WIO", "NWC"), ("NDHWC", "DHWIO", "NDHWC")
# input, filter, strides, padding, dilation of the input, of the filter, layout, groups
CASES = {
    "same": ((2, 9, 13, 16), (3, 3, 16, 20), (1, 1), "SAME", (1, 1), (1, 1), NHWC, 1),
    "stride 2": ((2, 10, 13, 8), (3, 3, 8, 16), (2, 2), "SAME", (1, 1), (1, 1), NHWC, 1),
    "stride 3, channels first": ((2, 5, 11, 12), (7, 5, 3, 2), (3, 2), "VALID", (1, 1), (1, 1), NCHW, 1),
    "three channels": ((2, 8, 8, 3), (3, 3, 3, 9), (1, 1), "SAME", (1, 1), (1, 1), NHWC, 1),
    "one channel": ((3, 8, 9, 1), (5, 3, 1, 40), (1, 1), "VALID", (1, 1), (1, 1), NHWC, 1),
    "dilated filter": ((2, 11, 9, 6), (3, 2, 6, 10), (1, 1), ((2, 1), (0, 2)), (1, 1), (2, 3), NHWC, 1),
    "transposed": ((2, 6, 5, 8), (3, 4, 8, 10), (1, 1), ((1, 2), (2, 0)), (2, 3), (1, 1), NHWC, 1),
    "transposed, fewer taps than holes": ((2, 6, 9, 16), (1, 2, 16, 17), (1, 1), ((1, 0), (2, 1)), (3, 3), (1, 1), NHWC, 1),
    "everything": ((2, 6, 8, 5), (3, 2, 5, 12), (2, 1), ((1, 2), (3, -1)), (2, 2), (1, 2), NHWC, 1),
    "cut": ((2, 9, 12, 6), (2, 3, 6, 10), (1, 1), ((-1, 2), (1, -3)), (1, 1), (1, 1), NHWC, 1),
    "groups": ((2, 7, 9, 12), (3, 3, 4, 30), (1, 2), "SAME", (1, 1), (1, 1), NHWC, 3),
    "one dimension": ((3, 40, 5), (4, 5, 17), (2,), ((3, 1),), (1,), (2,), LINE, 1),
    "three dimensions": ((2, 4, 5, 6, 3), (2, 3, 2, 3, 6), (1, 2, 1), "SAME", (1, 1, 1), (1, 1, 1), SPACE, 1),
    "one by one": ((2, 7, 9, 12), (1, 1, 12, 33), (1, 1), "VALID", (1, 1), (1, 1), NHWC, 1),
}  # fmt: skip

DIFFERENTIATED = ("stride 2", "stride 3, channels first", "everything")


def arguments(number, case, dtype=np.float32):
    rng = np.random.default_rng(number)
    return [rng.standard_normal(s).astype(dtype) for s in case[:2]]


def with_gradients(library, case):
    """The convolution of (x, w), and the gradients of the sum of its squares."""
    where, grad, np_ = library
    f = forward(where, case)
    return lambda x, w: [f(x, w), *grad(lambda x, w: np_.sum(f(x, w) ** 2), argnums=(0, 1))(x, w)]


def forward(where, case):
    """The convolution of (x, w) alone."""
    _, _, strides, padding, lhs_dilation, rhs_dilation, layout, groups = case
    return lambda x, w: where.conv_general_dilated(
        x, w, strides, padding, lhs_dilation, rhs_dilation, layout, feature_group_count=groups
    )


OURS, JAX = (lax, quire.grad, qnp), (jax_lax, jax.grad, jax.numpy)


def test_convolutions_and_gradients():
    check(
        [
            Case(
                name,
                with_gradients(OURS, case) if name in DIFFERENTIATED else forward(lax, case),
                arguments(i, case),
                rtol=2e-4,
                atol=2e-3,
            )  # fmt: skip
            for i, (name, case) in enumerate(CASES.items())
        ]
    )


@pytest.mark.parametrize("name", ["transposed", "everything"])
def test_the_reference_is_right(name):
    case = CASES[name]
    x, w = arguments(list(CASES).index(name), case)
    for got, want in zip(with_gradients(OURS, case)(x, w), jax.jit(with_gradients(JAX, case))(x, w)):
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-4, atol=2e-3)


def test_other_dtypes(x64):
    def cases():
        for i, dtype in enumerate((np.float64, np.float16, "bfloat16", np.int32)):
            x, w = ((10 * a).astype(dtype) for a in arguments(i, CASES["same"]))
            tolerance = {2: 2e-2, 8: 1e-11}.get(x.dtype.itemsize, 0)
            yield Case(
                f"{dtype}", lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=NHWC), [x, w],
                rtol=tolerance, atol=100 * tolerance,
            )  # fmt: skip

    check(list(cases()))


def choices(f, *args):
    return lower_module(trace(f, args), get_target("cpu"), name="f").text().split("module @")[0]


def test_each_form_is_chosen_and_says_why():
    text = choices(with_gradients(OURS, CASES["stride 2"]), *arguments(0, CASES["stride 2"]))
    assert "3x3 window, 8 to 16 features, 2 x 5x7: " in text
    assert "3x3 window, 16 to 8 features, 2 x 10x13: " in text  # the input's gradient, by phases
    assert "StableHLO" not in text
    assert (
        "// conv_general_dilated" in text and "3 x 24x70 @ 70x16 f32" in text
    )  # the filter's gradient, a matrix product
    x, w = np.ones((2, 8, 8, 16), np.float32), np.ones((3, 3, 1, 16), np.float32)
    depthwise = choices(with_gradients(OURS, (x.shape, w.shape, (1, 1), "SAME", (1, 1), (1, 1), NHWC, 16)), x, w)
    assert (
        "StableHLO: 3x3 window, 16 to 16 features, 2 x 8x8: few features in a group, which the compiler does well"
        in depthwise
    )


def padded(x, pads):
    """x with its spatial dimensions padded, or cut where the pad is negative."""
    for d, (lo, hi) in enumerate(pads, 1):
        x = np.moveaxis(x, d, 0)
        x = np.concatenate(
            [
                np.zeros((max(lo, 0), *x.shape[1:]), x.dtype),
                x[max(-lo, 0) : len(x) - max(-hi, 0)],
                np.zeros((max(hi, 0), *x.shape[1:]), x.dtype),
            ]
        )
        x = np.moveaxis(x, 0, d)
    return np.ascontiguousarray(x)


@pytest.mark.parametrize("target", [CPU_BASELINE, CPU_AVX512], ids=["baseline", "avx512"])
def test_other_vector_widths(bundle, target):
    names = ["same", "transposed"]
    module, pads, chains = bundle(), {}, {}
    for name in names:
        shape, taps, strides, padding, base, dilation, _, groups = CASES[name]
        windows = []
        pads[name] = []
        for d in range(2):
            n, k = shape[1 + d], taps[d]
            lo, hi = (1, 1) if padding == "SAME" else padding[d]
            out = ((n - 1) * base[d] + lo + hi - (k - 1) * dilation[d]) // strides[d] + 1
            w, *pad = window(n, k, out, strides[d], dilation[d], base[d], lo)
            windows.append(w)
            pads[name].append(pad)
        c = Conv(shape[0], shape[-1], taps[-1], groups, tuple(windows))
        chains[name] = convolution(c, dtype_of("f32"), dtype_of("f32"), target)
        module.add(chains[name])
    module.compile()
    for number, name in enumerate(names):
        shape, taps, strides, padding, base, dilation, _, groups = CASES[name]
        x, w = arguments(number, CASES[name])
        (got,) = module.run(number, padded(x, pads[name]), w)
        want = lax.conv_general_dilated(x, w, strides, padding, base, dilation, NHWC, feature_group_count=groups)
        np.testing.assert_allclose(got, np.asarray(want), rtol=1e-4, atol=1e-4)


def test_a_window_asks_for_the_padding_it_reads():
    assert window(10, 3, 10, 1, 1, 1, 1)[1:] == (1, 1)
    assert window(10, 3, 5, 2, 1, 1, 0)[1:] == (0, 1)
    assert window(10, 3, 4, 2, 1, 1, -1)[1:] == (-1, 0)
    # The gradient of a strided convolution: no element is read that is not there, no hole is stored.
    w, low, high = window(5, 3, 10, 1, 1, 2, 2)
    assert (w.size, low, high) == (6, 1, 0)


def test_what_is_left_to_stablehlo():
    small = Conv(1, 2, 2, 1, (window(4, 3, 4, 1, 1, 1, 1)[0],))
    with pytest.raises(NoKernel, match="^3 window, 2 to 2 features, 1 x 4: fewer than 8192 operations$"):
        convolution(small, dtype_of("f32"), dtype_of("f32"), CPU_AVX2)
    with pytest.raises(NoKernel, match="no kernel sums in c64"):
        convolution(small, dtype_of("c64"), dtype_of("c64"), CPU_AVX2)
    assert Spec.of(small.out_shape, "f32").size == 8
