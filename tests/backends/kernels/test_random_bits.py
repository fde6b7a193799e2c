"""The random bits kernel against JAX: element i is a hash of i, so one long array of JAX serves all sizes."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import quire
from quire.backends.kernels import CPU_AVX2, CPU_AVX512, CPU_BASELINE, GPU, NoKernel
from quire.backends.kernels.random.bits import PIECE, random_bits

# (batch of keys, shape, target): the least sizes, tails, several pieces, several keys
CASES = [
    ((), (32,), CPU_AVX2), ((), (33,), CPU_AVX2), ((), (7, 11), CPU_AVX2), ((), (PIECE,), CPU_AVX2),
    ((), (PIECE + 1,), CPU_AVX2), ((), (3 * PIECE - 5,), CPU_AVX2), ((5,), (40,), CPU_AVX2),
    ((2, 3), (PIECE + 7,), CPU_AVX2), ((), (100,), CPU_BASELINE), ((3,), (100,), CPU_AVX512),
]  # fmt: skip


@pytest.fixture(scope="module")
def compiled(bundle):
    module = bundle()
    numbers = [module.add(random_bits(batch, shape, np.uint32, target)) for batch, shape, target in CASES]
    module.compile()
    return module, numbers


@pytest.fixture(scope="module")
def expected():
    keys = np.random.default_rng(0).integers(0, 2**32, (6, 2), dtype=np.uint32)
    return keys, np.asarray(jax.vmap(lambda k: jax.random.bits(k, (3 * PIECE,)))(keys))


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda i: "-".join(map(str, CASES[i][:2])))
def test_random_bits(compiled, expected, case):
    module, numbers = compiled
    batch, shape, _ = CASES[case]
    keys, bits = expected
    n, size = int(np.prod(batch)), int(np.prod(shape))
    (got,) = module.run(numbers[case], keys[:n, 0].copy(), keys[:n, 1].copy())
    np.testing.assert_array_equal(got, bits[:n, :size].reshape(*batch, *shape))


@pytest.mark.parametrize(
    "size, itemsize, target, why",
    [
        (31, 4, CPU_AVX2, "fewer elements"), (1000, 8, CPU_AVX2, "32 bits an element"), (1000, 4, GPU, "for CPUs"),
    ],
)  # fmt: skip
def test_what_does_not_apply(size, itemsize, target, why):
    with pytest.raises(NoKernel, match=why):
        random_bits((), (size,), np.dtype(f"uint{8 * itemsize}"), target)


def test_the_reason_is_printed_with_the_module():
    text = quire.jit(lambda key: quire.random.bits(key, (9,))).lower(np.zeros(2, np.uint32)).as_text()
    assert "random_bits" in text and "no kernel: fewer elements for a key than a few vectors hold" in text
