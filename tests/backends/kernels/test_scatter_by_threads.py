"""The scatter kernels for GPUs on a Vulkan device, against a window-by-window NumPy scatter."""

from __future__ import annotations

import dataclasses
import itertools

import iree.compiler as compiler
import numpy as np
import pytest

from quire.backends.kernels import DTYPES, GPU, KernelChain, Spec, scatter
from quire.backends.kernels.indexing import scatter_by_threads
from quire.ir.primitives.indexing import ScatterDimensionNumbers
from tests.backends.kernels.test_gpu_kernels import vulkan
from tests.backends.kernels.test_scatter import FORMS, OPS, ROWS, SCALARS, draw, draw_indices, reference

#: More updates than are compared with each other: of one chunk and of several, of few places and of many.
MANY = {
    "few places": ((10,), (5000, 1), (5000,), SCALARS),
    "one place": ((1,), (3000, 1), (3000,), SCALARS),
    "many places": ((4000,), (65535, 1), (65535,), SCALARS),
    "segments": ((20, 33), (1000, 1), (1000, 33), ROWS),
    "overlapping windows": ((70,), (40, 1), (9, 40), ScatterDimensionNumbers((0,), (), (0,))),
    "one chunk": ((20, 3), (100, 1), (100, 3), ROWS),
}


def cases() -> list[tuple]:
    """(form, operation, mode, dtype of indices, dtype, threads)."""
    out = [
        (form, op, mode, index, "f32", 128)
        for form in FORMS
        for op, mode, index in (("set", "drop", "i32"), ("add", "clip", "i8"))
    ]
    out += [("overlapping windows", op, "clip", "i32", "f32", 128) for op in ("set", "add")]
    out += [
        ("part of a row", "set", mode, index, "i32", 128) for index in ("u8", "u32", "i64") for mode in ("drop", "clip")
    ]
    out += [("one chunk", op, "drop", "i32", name, 128) for name in ("f32", "f16", "i8", "bool", "c64") for op in OPS]
    out += [
        (form, op, "drop", "i32", name, threads)
        for form, threads in zip(MANY, (64, 128, 256, 128))
        for op, name in (("add", "f32"), ("set", "i32"), ("max", "f32"), ("add", "c64"))
    ]
    return out


CASES = cases()


@pytest.fixture(scope="module")
def compiled(bundle):
    module, numbers = bundle("vulkan-spirv"), []
    for form, op, mode, index, name, threads in CASES:
        operand, indices, updates, dims = (FORMS | MANY)[form]
        specs = Spec.of(operand, name), Spec.of(indices, index), Spec.of(updates, name)
        target = dataclasses.replace(GPU, threads=threads)
        numbers.append(module.add(scatter(op, *specs, dims, target, mode=mode)))
    module.compile()
    return module, numbers


class TestOnVulkan:
    pytestmark = vulkan

    @pytest.mark.parametrize("case", range(len(CASES)), ids=lambda i: "-".join(map(str, CASES[i])))
    def test_scatter(self, compiled, case):
        module, numbers = compiled
        form, op, mode, index, name, _ = CASES[case]
        operand, indices, updates, dims = (FORMS | MANY)[form]
        rng = np.random.default_rng(case)
        x, u = draw(name, operand, rng), draw(name, updates, rng)
        if form in MANY:
            i = rng.integers(-1, operand[0] + 1, indices).astype(np.int32)
        else:
            i = draw_indices(indices, operand, DTYPES[index].numpy(), rng)
        (got,) = module.run(numbers[case], x, i, u)
        np.testing.assert_array_equal(got, reference(op, mode, x, i, u, dims))


def test_how_it_is_done_depends_on_how_many_units_there_are():
    def kernel(op, count, lanes=1, **kind):
        specs = Spec.of((50, lanes), "f32"), Spec.of((count, 1), "i32"), Spec.of((count, lanes), "f32")
        return scatter(op, *specs, ROWS, GPU, **kind)

    assert "no two updates of one place" in kernel("add", 1).reason
    assert "no two updates of one place" in kernel("add", 1000, unique=True).reason
    assert "the first of 20 with one place combines all" in kernel("add", 20).reason
    names = {}
    for op, count in itertools.product(("set", "add"), (200, 2000)):
        chain = kernel(op, count, 8)
        assert isinstance(chain, KernelChain) and chain.reason.endswith(
            "sorted by place, a thread for each place and lane"
        )
        names[op, count] = [step.kernel.name.rpartition("_")[0] for step in chain.steps]
    assert names["set", 200] == ["scatter_keys", "bitonic", "scatter_last"]
    assert names["add", 200] == ["scatter_keys", "bitonic", "scatter_add_runs"]
    assert names["add", 2000][-2:] == ["scatter_parts", "scatter_add_runs"]
    # Units that are clipped may meet although no two index vectors are equal.
    assert isinstance(kernel("add", 1000, unique=True, mode="clip"), KernelChain)
    assert scatter_by_threads.FEW < 200 < scatter_by_threads.CHUNK


def test_cuda_takes_the_kernels(bundle):
    module = bundle("cuda")
    for form in ("many places", "segments"):
        operand, indices, updates, dims = MANY[form]
        module.add(scatter("add", Spec.of(operand, "f32"), Spec.of(indices, "i32"), Spec.of(updates, "f32"), dims, GPU))
    flags = ["--iree-input-type=auto", "--iree-cuda-target=sm_80"]
    assert len(compiler.compile_str(module.text(), target_backends=["cuda"], extra_args=flags)) > 1000
