"""The indices of an elementwise kernel's vectors along a dimension: rows shorter and longer than a vector, odd ends."""

from __future__ import annotations

import numpy as np

import quire
import quire.numpy as qnp
from quire import lax

SHAPES = (
    (301, 17),
    (64, 33, 5),
    (1000, 40),
    (3, 7001),
    (2, 90, 100),
    (20011,),
    (50, 1, 130),
    (4, 31, 2, 65),
    (9, 32, 33),
)


def test_iotas_in_elementwise_kernels() -> None:
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        x = rng.standard_normal(shape).astype(np.float32)
        dims = range(len(shape))

        def f(x: quire.Array, shape: tuple[int, ...] = shape) -> list[quire.Array]:
            return [qnp.sin(x) + lax.broadcasted_iota(np.float32, shape, d) for d in range(len(shape))]

        for d, got in zip(dims, quire.jit(f)(x), strict=True):
            want = np.sin(x) + np.arange(shape[d]).reshape([-1 if k == d else 1 for k in dims])
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-5, err_msg=f"{shape} {d}")


def test_elements_taken_along_an_axis() -> None:
    rng = np.random.default_rng(1)
    for shape in SHAPES:
        x = rng.standard_normal(shape).astype(np.float32)
        for axis in range(len(shape)):
            where = rng.integers(-shape[axis], shape[axis], shape).astype(np.int32)
            got = quire.jit(lambda x, i, axis=axis: qnp.take_along_axis(x, i, axis=axis))(x, where)
            np.testing.assert_array_equal(got, np.take_along_axis(x, where, axis), err_msg=f"{shape} {axis}")
