"""Windowed reductions and convolutions in the steps of loops, which stay one kernel: against the reference and JAX."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import quire
from quire import numpy as qnp
from tests.helpers import Case, check

from .test_loops import lowered, reasons

RNG = np.random.default_rng(11)
NHWC, NCHW, WHCN = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("WHCN", "IOWH", "WHNC")


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    x = RNG.standard_normal(shape)
    return np.asarray(x + 1j * RNG.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def fitted(api: Any, out: Any, shape: tuple[int, ...]) -> Any:
    """The first elements along each dimension, or all and zeros."""
    out = out[tuple(slice(n) for n in shape)]
    return out if out.shape == shape else api.numpy.pad(out, [(0, n - k) for n, k in zip(shape, out.shape)])


def windows(name: str, start: Any, lengths: Any, strides: Any = None, padding: Any = "SAME", **dilation: Any) -> Any:
    """A step: windows of what is carried, brought back to its shape."""

    def step(api: Any, y: Any) -> Any:
        out = api.lax.reduce_window(
            y, start, getattr(api.lax, name), lengths, strides or (1,) * len(lengths), padding, **dilation
        )
        return fitted(api, out, y.shape)

    return step


def convolution(kernel: Any, numbers: Any, padding: Any = "SAME", strides: Any = (1, 1), **rest: Any) -> Any:
    def step(api: Any, y: Any) -> Any:
        out = api.lax.conv_general_dilated(y, kernel, strides, padding, dimension_numbers=numbers, **rest)
        out = fitted(api, out, y.shape)
        return out * 0.5 if api.numpy.iscomplexobj(out) else api.numpy.tanh(out)

    return step


IMAGE, ROWS, WHOLE = normal(17, 22), normal(3, 4, 31), RNG.integers(-9, 9, (13, 18)).astype(np.int32)
CHANNELS = normal(2, 9, 11, 3)
STEPS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "max": (windows("max", -np.inf, (3, 3)), IMAGE),
    "min, larger": (windows("min", np.inf, (5, 6), padding=((1, 3), (2, 3))), IMAGE),
    "add": (lambda api, y: windows("add", 0.0, (3, 3))(api, y) / 9, IMAGE),
    "add, strides": (windows("add", 0.0, (2, 3), (2, 3), "VALID"), IMAGE),
    "add, gaps": (windows("add", 0.0, (2, 3), (1, 1), ((2, 0), (3, 1)), window_dilation=(2, 2)), IMAGE * 0.1),
    "add, gaps between elements": (windows("add", 0.0, (3, 2), (2, 2), ((1, 1), (1, 0)), base_dilation=(2, 2)), IMAGE * 0.1),
    "add of one element with strides": (windows("add", 0.0, (1, 4), (2, 1), "SAME"), IMAGE * 0.1),
    "max along a row, longer than it is padded": (windows("max", -np.inf, (1, 22), padding="VALID"), IMAGE),
    "of one element": (windows("add", 0.0, (1, 1), (2, 1), "VALID"), IMAGE),
    "of one element of few": (windows("max", -np.inf, (1,), (1,), ((1, 1),)), IMAGE[0, :3]),
    "no place": (convolution(normal(3, 3) * 0.5, ("NC", "IO", "NC"), (), ()), normal(4, 3)),
    "mul": (windows("mul", 1.0, (1, 1, 3)), ROWS),
    "three dimensions": (windows("add", 0.0, (2, 2, 2)), ROWS * 0.1),
    "max of integers": (windows("max", np.int32(np.iinfo(np.int32).min), (3, 1)), WHOLE),
    "add of bytes": (windows("add", np.uint8(0), (2, 3)), WHOLE.astype(np.uint8)),
    "xor": (windows("bitwise_xor", np.int32(0), (3, 2)), WHOLE),
    "or": (windows("bitwise_or", False, (3, 3)), WHOLE > 7),
    "and": (windows("bitwise_and", True, (2, 2)), WHOLE > -8),
    "half precision": (windows("add", np.float16(0), (1, 4)), (ROWS[0] * 0.1).astype(np.float16)),
    "complex": (lambda api, y: windows("add", np.complex64(0), (3, 3))(api, y) / 9, normal(7, 12, dtype=np.complex64)),
    "one feature": (convolution(normal(1, 1, 3, 4), NCHW), IMAGE[None, None]),
    "one feature, gaps": (convolution(normal(1, 1, 2, 3), NCHW, ((2, 0), (2, 2)), rhs_dilation=(2, 2)), IMAGE[None, None]),
    "one feature, gaps between elements": (
        convolution(normal(1, 1, 3, 3), NCHW, ((1, 1), (1, 1)), (2, 2), lhs_dilation=(2, 2)), IMAGE[None, None]
    ),
    "cut": (convolution(normal(1, 1, 2, 2), NCHW, ((-1, 2), (2, -1))), IMAGE[None, None]),
    "features last": (convolution(normal(3, 3, 3, 3) * 0.3, NHWC), CHANNELS),
    "features first": (convolution(normal(3, 3, 2, 2) * 0.3, NCHW), np.moveaxis(CHANNELS, 3, 1)),
    "features in the middle": (convolution(normal(3, 3, 2, 2) * 0.3, WHCN), normal(8, 9, 3, 3)),
    "each feature by itself": (convolution(normal(3, 3, 1, 3), NHWC, feature_group_count=3), CHANNELS),
    "each feature by itself, half precision": (
        convolution(normal(3, 3, 1, 3, dtype=np.float16), NHWC, feature_group_count=3), CHANNELS.astype(np.float16)
    ),
    "groups": (convolution(normal(4, 2, 3, 3) * 0.3, NCHW, feature_group_count=2), normal(2, 4, 6, 7)),
    "many features": (convolution(normal(2, 2, 9, 9) * 0.2, NHWC), normal(1, 5, 6, 9)),
    "complex filters": (
        convolution(normal(1, 1, 2, 2, dtype=np.complex64) * 0.3, NCHW), normal(1, 1, 6, 9, dtype=np.complex64)
    ),
    "one dimension": (lambda api, y: api.numpy.convolve(y, np.hanning(7).astype(np.float32), mode="same") * 0.3, ROWS[0, 0]),
}  # fmt: skip


def looped(api: Any, step: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    return lambda x: api.lax.fori_loop(0, 3, lambda _, y: step(api, y), x)


def test_equal_reference() -> None:
    check([
        Case(name, looped(quire, step), (x,), rtol=1e-2 if x.dtype == np.float16 else 2e-5, atol=1e-2 if x.dtype == np.float16 else 2e-5)
        for name, (step, x) in STEPS.items()
    ])  # fmt: skip


def test_equal_jax() -> None:
    for name, (step, x) in STEPS.items():
        if x.dtype != np.float16:
            got, want = quire.jit(looped(quire, step))(x), looped(jax, step)(x)
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", STEPS)
def test_are_one_kernel(name: str) -> None:
    step, x = STEPS[name]
    found = reasons(lowered(looped(quire, step), (x,)))
    assert len(found) == 1 and re.search("one kernel, its state in memory", found[0]), found


def test_convolutions_with_kernels_of_their_own_keep_them() -> None:
    step = convolution(normal(3, 3, 32, 32) * 0.1, NHWC)
    assert any(
        "kernels of its own are quicker" in r for r in reasons(lowered(looped(quire, step), (normal(1, 14, 14, 32),)))
    )


def test_functions_of_the_programs_own_are_left_to_the_host() -> None:
    """A reduction that is no monoid's, and a start that is not neutral: as before."""

    def far(api: Any, y: Any) -> Any:
        return api.lax.reduce_window(y, 0.0, lambda a, b: a * 0.5 + b, (1, 3), (1, 1), "VALID")

    def loop(x: Any) -> Any:
        return quire.lax.fori_loop(0, 3, lambda _, y: qnp.pad(far(quire, y), ((0, 0), (1, 1))), x)

    assert not any("one kernel" in r for r in reasons(lowered(loop, (IMAGE,))))
    check([Case("a function", loop, (IMAGE,), rtol=1e-5, atol=1e-5)])


def test_windows_of_scalars_are_left_to_the_host() -> None:
    step = windows("add", np.float32(0), ())
    check(
        [Case("a scalar", lambda x: quire.lax.fori_loop(0, 3, lambda _, y: step(quire, y) * 0.5, x), (np.float32(3),))]
    )
