"""Sort and top_k for GPUs, by networks and by radix passes, on a Vulkan device (Mesa's software driver will do); compiled for CUDA."""

from __future__ import annotations

import dataclasses

import iree.compiler as compiler
import numpy as np
import pytest

from quire.backends.kernels import DTYPES, GPU, NoKernel, Spec, sort, top_k
from quire.backends.kernels.ordering import by_threads
from tests.backends.kernels.test_gpu_kernels import vulkan

# (shape, dtypes, dimension, number of keys, descending)
SORTS = [
    *(((n,), ("f32", "i32"), 0, 1, False) for n in (0, 1, 2, 3, 127, 128, 129, 1024, 1025)),
    *(((3, 50), (name, "i32"), 1, 1, False) for name in DTYPES),
    *(((2, 1500), (name,), 1, 1, True) for name in ("f64", "u8", "c64", "bf16")),
    ((5, 40, 3), ("i8", "f32", "bool"), 1, 2, True),
    ((4, 20_000), ("f32", "i32"), 1, 1, False),
    ((2, 70_000), ("f32", "i8"), 1, 1, False),
]
# (dtype, shape, k)
TOPS = [
    ("f32", (3, 100), 7),
    ("i16", (2, 5000), 600),
    ("u32", (70,), 70),
    ("f64", (5, 0), 0),
    ("bool", (300,), 2),
]


#: Those that are sorted by radix passes too, whatever their length.
RADIX = [
    *(((n,), ("f32", "i32"), 0, 1, False) for n in (2, 129, 2049)),
    *(((3, 50), (name, "i32"), 1, 1, False) for name in ("f32", "u8", "i16", "bool", "bf16", "c64", "i64")),
    ((2, 1500), ("f64",), 1, 1, True),
    ((5, 40, 3), ("i8", "f32", "bool"), 1, 2, True),
    ((2, 70_000), ("f32", "i8"), 1, 1, False),
]
ALL_SORTS = [*(("network", case) for case in SORTS), *(("radix", case) for case in RADIX)]
ALL_TOPS = [*(("network", case) for case in TOPS), *(("radix", case) for case in TOPS[:3])]


@pytest.fixture(scope="module")
def compiled(bundle):
    """All cases, with different numbers of threads."""
    module, targets = bundle("vulkan-spirv"), [dataclasses.replace(GPU, threads=t) for t in (64, 128, 256)]
    sorts, tops = [], []
    with pytest.MonkeyPatch.context() as patch:
        for i, (way, (shape, dtypes, dim, keys, descending)) in enumerate(ALL_SORTS):
            patch.setattr(by_threads, "RADIX_LENGTH", 0 if way == "radix" else 1 << 30)
            target = targets[i % 3]
            kernel = sort([Spec.of(shape, d) for d in dtypes], dim, keys, target, descending=descending)
            assert {"network": "bitonic", "radix": "radix"}[way] in kernel.reason or "at most one" in kernel.reason
            sorts.append(module.add(kernel))
        for way, (name, shape, k) in ALL_TOPS:
            patch.setattr(by_threads, "RADIX_LENGTH", 0 if way == "radix" else 1 << 30)
            kernel = top_k(Spec.of(shape, name), k, GPU)
            assert {"network": "bitonic", "radix": "radix"}[way] in kernel.reason or "no results" in kernel.reason
            tops.append(module.add(kernel))
    module.compile()
    return module, sorts, tops


class TestOnVulkan:
    pytestmark = vulkan

    @pytest.mark.parametrize("case", range(len(ALL_SORTS)), ids=lambda i: "-".join(map(str, ALL_SORTS[i])))
    def test_sort(self, compiled, tools, case):
        module, sorts, _ = compiled
        shape, dtypes, dimension, keys, descending = ALL_SORTS[case][1]
        rng = np.random.default_rng(case)
        arrays = [tools.sample(DTYPES[d].numpy(), shape, rng) for d in dtypes]
        order = [k for x in arrays[:keys] for k in tools.order_keys(x)]
        moved = [np.moveaxis(~k if descending else k, dimension, -1) for k in order]
        places = np.moveaxis(np.lexsort(moved[::-1], axis=-1), -1, dimension)
        for result, array in zip(module.run(sorts[case], *arrays), arrays):
            expected = np.take_along_axis(array, places, dimension)
            np.testing.assert_array_equal(tools.bits(result), tools.bits(expected))

    @pytest.mark.parametrize("case", range(len(ALL_TOPS)), ids=lambda i: "-".join(map(str, ALL_TOPS[i])))
    def test_top_k(self, compiled, tools, case):
        module, _, tops = compiled
        name, shape, k = ALL_TOPS[case][1]
        x = tools.sample(DTYPES[name].numpy(), shape, np.random.default_rng(case))
        values, places = module.run(tops[case], x)
        key = tools.order_keys(x, total=True)[0]
        expected = np.argsort(~key, axis=-1, kind="stable")[..., :k]
        np.testing.assert_array_equal(places, expected)
        np.testing.assert_array_equal(tools.bits(values), tools.bits(np.take_along_axis(x, expected, -1)))


def test_compiles_for_cuda(bundle):
    module = bundle("vulkan-spirv")
    module.add(sort([Spec.of((2, 5000), d) for d in ("f64", "i8")], 1, 2, GPU))
    module.add(top_k(Spec.of((300,), "bf16"), 5, GPU))
    module.add(sort([Spec.of((70_000,), d) for d in ("f32", "i8")], 0, 1, GPU))
    flags = ["--iree-cuda-target=sm_80", "--iree-input-type=auto", "--iree-input-demote-f64-to-f32=false"]
    assert compiler.compile_str(module.text(), target_backends=["cuda"], extra_args=flags)


def test_long_rows_are_chains():
    chain = sort([Spec.of((2, 5000), "f32")], 1, 1, GPU)
    assert chain.reason == "sort of 2 rows of 5000: bitonic network, 11 dispatches"
    assert len({step.kernel.name for step in chain.steps}) == 4
    chain = sort([Spec.of((1 << 16,), "f32")], 0, 1, GPU)
    assert chain.reason == "sort of 1 rows of 65536: radix passes of 4 bits, 26 dispatches"
    # A key of 64 bits takes twice as many passes: they begin to be worth it later.
    assert "bitonic" in sort([Spec.of((1 << 16,), "f64")], 0, 1, GPU).reason
    assert "radix" in sort([Spec.of((1 << 17,), "f64")], 0, 1, GPU).reason
    assert "radix" in top_k(Spec.of((1 << 16,), "f32"), 5, GPU).reason


def test_what_is_not_taken():
    with pytest.raises(NoKernel, match="complex numbers have no order"):
        top_k(Spec.of((5,), "c64"), 1, GPU)
    with pytest.raises(NoKernel, match="k must be between 0 and the length of the last axis, got 6"):
        top_k(Spec.of((5,), "f32"), 6, GPU)
