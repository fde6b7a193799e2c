"""Kernels for GPUs on a Vulkan device, at sizes around a workgroup's and with several numbers of threads."""

from __future__ import annotations

import dataclasses

import iree.compiler as compiler
import iree.runtime as rt
import numpy as np
import pytest

from quire.backends.kernels import CPU_AVX2, GPU, KernelBuilder, NoKernel, Spec, cumulative

SIZES = (1, 31, 1000, 65535)
THREADS = (64, 128, 256)
#: (operation, shape, dtype, dimension, reverse)
SCANS = [
    *(("sum", (n,), "i32", 0, False) for n in SIZES),
    ("sum", (1000,), "f32", 0, True),
    ("max", (65535,), "f32", 0, False),
    ("prod", (37, 61), "f32", 0, False),
    ("min", (5, 1300, 3), "i8", 1, True),
    ("sum", (5000, 17), "f16", 1, False),
]
NUMPY = {"sum": np.cumsum, "prod": np.cumprod, "max": np.maximum.accumulate, "min": np.minimum.accumulate}


def _vulkan_missing() -> str:
    """Why no Vulkan device can be used, or ''."""
    try:
        return "" if rt.get_driver("vulkan").query_available_devices() else "no Vulkan device"
    except Exception as error:  # the driver's own error types differ by platform
        return f"no Vulkan driver: {error}"


MISSING = _vulkan_missing()
vulkan = [pytest.mark.vulkan, pytest.mark.skipif(bool(MISSING), reason=MISSING[:200])]


def squares(n: int, target):
    """A kernel that writes the square of each number's place, by threads."""
    b = KernelBuilder("squares", [], [Spec.of((n,), "i32")], target)
    with b.spread_threads(n) as i:
        place = b.cast(i, "i32")
        b.store(place * place, b.result(0), i)
    return b.build((b.thread_groups(n),), "squares of places")


@pytest.fixture(scope="module")
def compiled(bundle):
    module = bundle("vulkan-spirv")
    targets = [dataclasses.replace(GPU, threads=t) for t in THREADS]
    scans = {
        (t.threads, k): module.add(cumulative(op, Spec.of(shape, dtype), dim, t, reverse=reverse))
        for t in targets
        for k, (op, shape, dtype, dim, reverse) in enumerate(SCANS)
    }
    places = {(t.threads, n): module.add(squares(n, t)) for t in targets for n in SIZES}
    module.compile()
    return module, scans, places


@pytest.mark.parametrize("threads", THREADS)
class TestOnVulkan:
    pytestmark = vulkan

    def test_scans(self, compiled, threads):
        module, scans, _ = compiled
        rng = np.random.default_rng(0)
        for k, (op, shape, dtype, dim, reverse) in enumerate(SCANS):
            kind = np.dtype(Spec.of(shape, dtype).dtype.numpy())
            x = rng.integers(-50, 50, shape) if kind.kind == "i" else rng.uniform(0.9, 1.1, shape)
            x = x.astype(kind)
            (got,) = module.run(scans[threads, k], x)
            wide = x.astype(np.float64 if kind.kind == "f" else kind)
            wide = np.flip(wide, dim) if reverse else wide
            want = NUMPY[op](wide, dim, dtype=wide.dtype)
            want = np.flip(want, dim) if reverse else want
            np.testing.assert_allclose(got, want, 2e-3 if dtype == "f16" else 1e-5, err_msg=f"{SCANS[k]}")

    def test_elements_spread_over_threads(self, compiled, threads):
        module, _, places = compiled
        for n in SIZES:
            (got,) = module.run(places[threads, n])
            np.testing.assert_array_equal(got, (np.arange(n, dtype=np.int64) ** 2).astype(np.int32))


def test_cuda_takes_the_kernels(bundle):
    module = bundle("cuda")
    module.add(cumulative("sum", Spec.of((65535,), "f32"), 0, GPU))
    module.add(squares(1000, GPU))
    binary = compiler.compile_str(
        module.text(), target_backends=["cuda"], extra_args=["--iree-input-type=auto", "--iree-cuda-target=sm_80"]
    )
    assert len(binary) > 1000


def test_what_is_not_taken():
    with pytest.raises(NoKernel, match="complex numbers are scanned on CPUs only"):
        cumulative("prod", Spec.of((100,), "c64"), 0, GPU)
    assert cumulative("prod", Spec.of((100,), "c64"), 0, CPU_AVX2).results


class TestErrorFreeSums:
    """Where the driver reassociates, the operand of a sum that it could cancel is hidden from it."""

    def text(self, reassociates: bool) -> str:
        target = dataclasses.replace(GPU, reassociates=reassociates)
        b = KernelBuilder("rounded", [Spec.of((64,), "f32")], [Spec.of((64,), "f32")], target)
        with b.spread_threads(64) as i:
            x = b.load(b.operand(0), i)
            b.store((x + 12582912.0) - 12582912.0, b.result(0), i)
        return b.build((1,), "rounded").text

    def test_only_where_it_is_needed(self):
        assert self.text(True).count("arith.bitcast") == 2
        assert "arith.bitcast" not in self.text(False)
