"""Parts of numbers where NumPy and JAX differ: quire has NumPy's (docs/differences.md)."""

import numpy as np

import quire
import quire.numpy as qnp


def test_the_fraction_of_an_infinity():
    x = np.array([np.inf, -np.inf, 2.5, -2.5, 0.0], np.float32)
    for f in (qnp.modf, quire.jit(qnp.modf)):
        for got, want in zip(f(x), np.modf(x)):
            np.testing.assert_array_equal(got, want)


def test_the_spacing_of_negative_numbers():
    for dtype in (np.float16, np.float32):
        x = np.array([1, -1, 3, -3, 100, -100], dtype)
        for f in (qnp.spacing, quire.jit(qnp.spacing)):
            np.testing.assert_array_equal(f(x), np.spacing(x))
