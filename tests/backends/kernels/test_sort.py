"""The sort kernels against NumPy's stable lexsort on JAX's order, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from quire.backends.kernels import CPU_AVX2, CPU_AVX512, CPU_BASELINE, DTYPES, GPU, Spec, sort

SIZES = [0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000]


def cases() -> dict[str, tuple]:
    """name -> (shape, dtypes, dimension, number of keys, descending, target)."""
    out: dict[str, tuple] = {}

    def add(shape, dtypes, dimension=0, keys=1, descending=False, target=CPU_AVX2):
        way = " descending" if descending else ""
        name = f"{'+'.join(dtypes)}{list(shape)} along {dimension}, {keys} keys{way}, {target.vector_bytes}"
        out[name] = (shape, dtypes, dimension, keys, descending, target)

    for n in SIZES:
        add((n,), ["f32"])
        add((n,), ["i64", "i32"])
    for name in DTYPES:
        add((20,), [name])
        add((3, 140, 2), [name], 1)
        add((2, 300), [name, "i32"], 1)
        add((190,), [name, "i32"], descending=True)
        add((7, 11), [name, "i32"], 0, descending=True)
    add((40,), ["i8", "f32", "u16"], keys=2)
    add((500,), ["bool", "f64", "c128"], keys=2)
    add((4, 130), ["i8", "c64", "f16", "bool"], 1, keys=3, descending=True)
    add((6, 170, 3), ["f32", "f32", "f32"], 1, keys=3)
    add((5000, 8), ["i32", "i32"], 1)
    for name in ("f32", "f64", "i32", "u8", "bf16"):
        add((100_000,), [name])
        add((100_000,), [name, "i32"])
    for target in (CPU_BASELINE, CPU_AVX512):
        add((61,), ["f32", "i32"], target=target)
        add((300,), ["f64", "i32"], target=target)
    return out


CASES = cases()


@pytest.fixture(scope="module")
def compiled(bundle):
    module = bundle()
    numbers = {
        name: module.add(sort([Spec.of(shape, d) for d in dtypes], dimension, keys, target, descending=descending))
        for name, (shape, dtypes, dimension, keys, descending, target) in CASES.items()
    }
    module.compile()
    return module, numbers


@pytest.mark.parametrize("name", CASES)
def test_sort(compiled, tools, name):
    module, numbers = compiled
    shape, dtypes, dimension, keys, descending, _ = CASES[name]
    rng = np.random.default_rng(len(name))
    arrays = [tools.sample(DTYPES[d].numpy(), shape, rng) for d in dtypes]
    if len(dtypes) > keys and dtypes[-1] == "i32":
        arrays[-1] = np.broadcast_to(
            np.arange(shape[dimension], dtype=np.int32).reshape([-1] + [1] * (len(shape) - dimension - 1)),
            shape,
        ).copy()
    order = [np.asarray(k) for x in arrays[:keys] for k in tools.order_keys(x)]
    if descending:
        order = [~k if k.dtype.kind != "b" else ~k for k in order]
    moved = [np.moveaxis(k, dimension, -1) for k in order]
    places = np.moveaxis(np.lexsort(moved[::-1], axis=-1), -1, dimension)
    for result, array in zip(module.run(numbers[name], *arrays), arrays):
        expected = np.take_along_axis(array, places, dimension)
        np.testing.assert_array_equal(tools.bits(result), tools.bits(expected))


def test_presorted_and_constant_rows_are_right(bundle):
    n = 20_000
    kernel = sort([Spec.of((n,), "f32"), Spec.of((n,), "i32")], 0, 1, CPU_AVX2)
    module = bundle()
    number = module.add(kernel)
    module.compile()
    place = np.arange(n, dtype=np.int32)
    for x in (np.zeros(n), np.arange(n), -np.arange(n), np.arange(n) % 2, np.full(n, np.nan)):
        x = x.astype(np.float32)
        values, places = module.run(number, x, place)
        np.testing.assert_array_equal(places, np.argsort(x, kind="stable"))
        np.testing.assert_array_equal(values, np.sort(x))


def test_sort_equals_jax(bundle, tools):
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(3)
    module = bundle()
    shapes = {n: (2, n) for n in (30, 130)}
    numbers = {
        n: module.add(sort([Spec.of(s, "f32"), Spec.of(s, "i8"), Spec.of(s, "i32")], 1, 2, CPU_AVX2))
        for n, s in shapes.items()
    }
    module.compile()
    for n, shape in shapes.items():
        x = tools.sample(np.float32, shape, rng)
        x[np.abs(x) < 1e-30] = 0  # JAX flushes denormals while comparing; quire does not
        arrays = [
            x,
            rng.integers(-2, 2, shape).astype(np.int8),
            rng.permuted(np.arange(2 * n)).reshape(shape),
        ]
        arrays[2] = arrays[2].astype(np.int32)
        expected = jax.lax.sort(tuple(map(jax.numpy.asarray, arrays)), num_keys=2)
        for got, wanted in zip(module.run(numbers[n], *arrays), expected):
            np.testing.assert_array_equal(tools.bits(got), tools.bits(np.asarray(wanted)))


def test_each_target_has_its_template():
    assert "bitonic" in sort([Spec.of((10,), "f32")], 0, 1, GPU).reason
