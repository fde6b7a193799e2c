"""Random bits: compiled against the reference against JAX, bit for bit; type errors."""

import jax
import numpy as np
import pytest
from jax import lax

import quire
from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.config import config
from quire.ir.primitives import random as rn
from tests.helpers import Case, check, run_compiled, thinned, trace

U32 = np.uint32
KEYS = [np.array(k, U32) for k in ([1, 2, 3, 4], [5, 6, 0xFFFFFFFF, 0xFFFFFFFF], [0xFFFFFFFF] * 4, [0, 0, 0, 0])]


def test_threefry_known_values():
    """The vectors of Random123's own tests."""

    def words(*values):
        return [np.array([v], U32) for v in values]

    cases = [
        (words(0, 0, 0, 0), words(0x6B200159, 0x99BA4EFE)),
        (words(*[0xFFFFFFFF] * 4), words(0x1CB996FC, 0xBB002BE7)),
        (words(0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3), words(0xC4923A9C, 0x483DF7A0)),
    ]
    check([Case(f"vector {i}", rn.threefry2x32, a, lambda *_, w=w: w) for i, (a, w) in enumerate(cases)])


def test_threefry_with_scalar_keys():
    x = np.arange(6, dtype=U32).reshape(2, 3)
    args = [U32(7), U32(9), U32(0), x]
    full = [np.full((2, 3), a, U32) for a in args[:3]] + [x]
    check([Case("scalars", rn.threefry2x32, args), Case("full", rn.threefry2x32, full)])


def bits_by_definition(k1, k2, shape, dt):
    """From the reference of threefry2x32, of which the vectors above are known."""
    low = np.arange(np.prod(shape, dtype=int), dtype=U32).reshape(shape)
    grow = (*np.shape(k1), *[1] * len(shape))
    a, b = (np.asarray(x) for x in rn.threefry2x32(*np.broadcast_arrays(
        np.reshape(k1, grow), np.reshape(k2, grow), np.zeros_like(low), low)))  # fmt: skip
    return (a.astype(np.uint64) << np.uint64(32) | b) if dt == np.uint64 else (a ^ b).astype(dt)


def test_random_bits():
    """As ordinary operations (few elements, other widths) and as a kernel."""
    one, many = (U32(7), U32(9)), (np.arange(6, dtype=U32).reshape(2, 3), np.arange(6, 12, dtype=U32).reshape(2, 3))
    cases = []
    with config.override(enable_x64=True):
        for dt in (np.uint8, np.uint16, np.uint32, np.uint64):
            for keys, shape in ((one, ()), (one, (5,)), (many, (2, 2)), (one, (0, 3)), (many, (100,)), (one, (9, 50))):
                cases.append(Case(
                    f"{np.dtype(dt)} {np.shape(keys[0])} {shape}", lambda a, b, s=shape, d=dt: rn.random_bits(a, b, s, d),
                    list(keys), lambda a, b, s=shape, d=dt: bits_by_definition(a, b, s, d),
                ))  # fmt: skip
        check(cases)


def test_random_bits_of_mapped_keys():
    keys = np.arange(12, dtype=U32).reshape(2, 6)
    for axes, args in (((0, 0), (keys[0], keys[1])), ((None, 0), (U32(3), keys[1])), ((0, None), (keys[0], U32(3)))):
        got = quire.vmap(lambda a, b: rn.random_bits(a, b, (40,)), axes)(*args)
        a, b = np.broadcast_arrays(*args)
        np.testing.assert_array_equal(got, bits_by_definition(a, b, (40,), np.uint32))


@pytest.mark.parametrize(
    "args, dt, message",
    [
        ((np.int32(1), U32(1)), np.uint32, "random_bits: key1"),
        ((U32(1), np.zeros(2, U32)), np.uint32, r"key1 and key2 must have one shape, got u32\[\] and u32\[2\]"),
        ((U32(1), U32(1)), np.int32, "random_bits: dtype int32 must be an unsigned integer dtype"),
    ],
)
def test_random_bits_type_errors(args, dt, message):
    with pytest.raises((TypeError, ValueError), match=message):
        rn.random_bits(*args, (3,), dt)


def test_use_key():
    x = np.arange(4, dtype=U32).reshape(2, 2)
    check([Case("use_key", lambda k: rn.use_key_p.bind(k, by="test"), [x], lambda k: k)])
    np.testing.assert_array_equal(quire.vmap(lambda k: rn.use_key_p.bind(k, by="test"), 1, 1)(x), x)
    with pytest.raises(TypeError, match="use_key"):
        rn.use_key_p.bind(np.int32(1), by="test")


def generator_cases(keys, shapes, types, algorithms=(0, 1, 2)):
    cases = []
    for i, key in enumerate(keys):
        for shape in shapes:
            for dt in types:
                for a in algorithms:
                    algorithm = lax.RandomAlgorithm(a)
                    cases.append(Case(
                        f"key {i} {shape} {np.dtype(dt)} {algorithm}",
                        lambda k, s=shape, d=dt, a=a: rn.rng_bit_generator(k, s, d, a),
                        [key],
                        lambda k, s=shape, d=dt, a=algorithm: lax.rng_bit_generator(k, s, d, a),
                    ))  # fmt: skip
    return cases


def test_rng_bit_generator_shapes():
    shapes = [(), (0,), (1,), (5,), (3, 3), (3, 2, 4), (7, 5, 3)]
    check(thinned(generator_cases(KEYS[:1], shapes, [np.uint32], (1, 2)), 3))


def test_rng_bit_generator_keys_and_dtypes():
    check(thinned(generator_cases(KEYS[1:], [(5,)], [np.uint8, np.uint16, np.uint32]), 2))


def test_rng_bit_generator_64_bit():
    with jax.enable_x64(True), config.override(enable_x64=True):
        wide = [np.array([1 << 63 | 5, (1 << 64) - 2], np.uint64)]
        check(
            generator_cases(KEYS[:2] + wide, [(5,), (3, 3)], [np.uint64], (1, 2))
            + generator_cases(wide, [(3, 3)], [U32])
        )


def test_rng_uniform_is_within_its_bounds():
    cases = [(np.float32(-1), np.float32(3)), (np.int32(-5), np.int32(7)), (np.uint8(3), np.uint8(250))]
    closed = trace(lambda *xs: [rn.rng_uniform(xs[i], xs[i + 1], (50, 20)) for i in (0, 2, 4)], sum(cases, ()))
    first, second = run_compiled(closed, sum(cases, ())), run_compiled(closed, sum(cases, ()))
    for (low, high), x, y in zip(cases, first, second):
        assert x.dtype == low.dtype and x.min() >= low and x.max() < high
        assert abs(x.astype(float).mean() - (float(low) + float(high)) / 2) < 0.1 * (float(high) - float(low))
        assert (x != y).any()


@pytest.mark.parametrize(
    "f, message",
    [
        (lambda: rn.rng_bit_generator_p.infer([ShapedArray((2,), dtypes.uint32)], PARAMS),
         "expected a key u32.4. or u64.2., got u32.2."),
        (lambda: rn.rng_bit_generator_p.infer([ShapedArray((4,), dtypes.uint32)], {**PARAMS, "dtype": dtypes.int32}),
         "dtype int32 must be an unsigned integer dtype"),
        (lambda: rn.threefry2x32_p.infer([ShapedArray((), dtypes.int32)] * 4, {}), "threefry2x32: key1 i32.. has dtype int32"),
        (lambda: rn.rng_uniform_p.infer([ShapedArray((2,), dtypes.float32)] * 2, {"shape": ()}), "must be scalars"),
    ],
)  # fmt: skip
def test_errors(f, message):
    with pytest.raises((TypeError, ValueError), match=message):
        f()


PARAMS = {"shape": (3,), "dtype": dtypes.uint32, "algorithm": rn.RandomAlgorithm.RNG_DEFAULT}
