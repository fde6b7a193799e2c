"""quire.random against jax.random, bit for bit."""

import jax
import ml_dtypes
import numpy as np
import pytest

from quire import random as qr
from quire.backends import reference
from quire.ir.config import config
from tests.helpers import Case, check, trace

KEY = np.array([0x12345678, 0x9ABCDEF0], np.uint32)
jr = jax.random


def run(f, *args):
    return reference.eval_jaxpr(trace(f, args), *args)[0]


@pytest.fixture(params=[True, False], ids=["partitionable", "original"])
def partitionable(request):
    with jax.threefry_partitionable(request.param), config.override(threefry_partitionable=request.param):
        yield request.param


FUNCTIONS = {
    "split": lambda r, k: r.split(k),
    "split 5": lambda r, k: r.split(k, 5),
    "split (2, 3)": lambda r, k: r.split(k, (2, 3)),
    "fold_in": lambda r, k: r.fold_in(k, 7),
    "fold_in -1": lambda r, k: r.fold_in(k, np.int32(-1)),
    "bits": lambda r, k: r.bits(k, (5, 3)),
    "bits u8": lambda r, k: r.bits(k, (7,), np.uint8),
    "bits u16": lambda r, k: r.bits(k, (7,), np.uint16),
    "bits ()": lambda r, k: r.bits(k),
    "bits empty": lambda r, k: r.bits(k, (0, 3)),
    "uniform": lambda r, k: r.uniform(k, (5, 3)),
    "uniform array bounds": lambda r, k: r.uniform(k, (2, 3), minval=np.arange(3, dtype=np.float32), maxval=5.0),
    "uniform f16": lambda r, k: r.uniform(k, (6,), np.float16),
    "uniform bf16": lambda r, k: r.uniform(k, (6,), ml_dtypes.bfloat16),
    "randint": lambda r, k: r.randint(k, (50,), -3, 10),
    "randint u8": lambda r, k: r.randint(k, (50,), 0, 256, np.uint8),
    "randint u16": lambda r, k: r.randint(k, (50,), 3, 1000, np.uint16),
    "randint i8": lambda r, k: r.randint(k, (50,), -128, 128, np.int8),
    "randint full": lambda r, k: r.randint(k, (50,), -(2**31), 2**31 - 1),
    "randint empty range": lambda r, k: r.randint(k, (3,), 5, 5),
    "randint arrays": lambda r, k: r.randint(k, (2, 3), np.array([0, 10, -5]), np.array([5, 20, 0])),
    "bernoulli": lambda r, k: r.bernoulli(k, 0.3, (40,)),
    "bernoulli array": lambda r, k: r.bernoulli(k, np.linspace(0, 1, 20, dtype=np.float32)),
    "bernoulli high": lambda r, k: r.bernoulli(k, 0.3, (40,), mode="high"),
}
NORMALS = {
    # XLA contracts the product and sum with the bounds to one rounding.
    "uniform bounds": (lambda r, k: r.uniform(k, (60,), minval=-2.5, maxval=7.0), 1e-6),
    "normal": (lambda r, k: r.normal(k, (200,)), 1e-6),
    "normal f16": (lambda r, k: r.normal(k, (20,), np.float16), 2e-3),
    "normal bf16": (lambda r, k: r.normal(k, (20,), ml_dtypes.bfloat16), 2e-2),
    "normal c64": (lambda r, k: r.normal(k, (20,), np.complex64), 2e-6),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_equals_jax(name, partitionable):
    got, want = run(lambda k: FUNCTIONS[name](qr, k), KEY), np.asarray(FUNCTIONS[name](jr, KEY))
    assert got.dtype == want.dtype and got.shape == want.shape
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("name", NORMALS)
def test_equals_jax_to_rounding(name):
    f, tolerance = NORMALS[name]
    got, want = run(lambda k: f(qr, k), KEY), np.asarray(f(jr, KEY))
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got.astype(np.complex64), want.astype(np.complex64), rtol=tolerance, atol=tolerance / 10)


def test_64_bit(partitionable):
    with jax.enable_x64(True), config.override(enable_x64=True):
        for f in (
            lambda r, k: r.bits(k, (5,), np.uint64),
            lambda r, k: r.uniform(k, (5,), np.float64),
            lambda r, k: r.randint(k, (5,), -(2**62), 2**62, np.int64),
        ):
            assert run(lambda k: f(qr, k), KEY).tobytes() == np.asarray(f(jr, KEY)).tobytes()  # noqa: B023


@pytest.mark.parametrize("seed", [0, 1, -1, 2**31, 2**32 + 5, np.int32(-7), np.uint32(2**32 - 1)])
def test_keys_from_seeds(seed):
    np.testing.assert_array_equal(np.asarray(qr.PRNGKey(seed)), np.asarray(jr.PRNGKey(seed)))
    np.testing.assert_array_equal(np.asarray(qr.key_data(qr.key(seed))), np.asarray(jr.key_data(jr.key(seed))))
    with jax.enable_x64(True), config.override(enable_x64=True):
        np.testing.assert_array_equal(np.asarray(qr.PRNGKey(seed)), np.asarray(jr.PRNGKey(seed)))


def test_compiled():
    exact = [Case(n, lambda k, n=n: FUNCTIONS[n](qr, k), [KEY], lambda k, n=n: FUNCTIONS[n](jr, k), exact=True)
             for n in FUNCTIONS]  # fmt: skip
    # erf_inv is good to 36 units in the last place near 1
    check(exact + [Case("normal", lambda k: qr.normal(k, (200,)), [KEY], None, 5e-6, 1e-6)])


@pytest.mark.parametrize(
    "f, message",
    [
        (lambda: qr.PRNGKey(0.5), "the seed must be an integer"),
        (lambda: qr.PRNGKey(0, impl="philox"), "unknown generator 'philox'"),
        (
            lambda: qr.uniform(np.zeros(3, np.uint32)),
            r"uniform: expected a key .*uint32 of shape \(2,\)\), got u32\[3\]",
        ),
        (lambda: qr.uniform(KEY, (-1,)), r"uniform: shape \(-1,\) has a negative length"),
        (lambda: qr.uniform(KEY, 2.5), "uniform: shape must be an int or a sequence of ints, got 2.5"),
        (lambda: qr.uniform(KEY, (2,), minval=np.zeros(3)), r"do not broadcast to the shape \(2,\): minval f32\[3\]"),
        (lambda: qr.bits(KEY, dtype=np.int32), "bits: dtype int32 must be an unsigned dtype"),
        (lambda: qr.randint(KEY, (2,), 0, np.float32(5)), "randint: minval and maxval must be integers"),
        (lambda: qr.uniform(KEY, (2,), np.int32), "uniform: dtype int32 must be a float dtype"),
        (lambda: qr.randint(KEY, (2,), 0, 5, np.float32), "randint: dtype float32 must be an integer dtype"),
        (lambda: qr.bernoulli(KEY, np.int32(1)), "bernoulli: p must be a float"),
        (lambda: qr.bernoulli(KEY, True), r"bernoulli: p must be a float, got bool\[\]"),
        (lambda: qr.bernoulli(KEY, 0.5, mode="medium"), "unknown mode 'medium'"),
    ],
)
def test_errors(f, message):
    with pytest.raises((TypeError, ValueError), match=message):
        f()
