"""The fft kernels for GPUs on a Vulkan device, against NumPy in double precision."""

from __future__ import annotations

import dataclasses

import iree.compiler as compiler
import numpy as np
import pytest

from quire.backends.kernels import GPU, KernelChain, NoKernel, Spec
from quire.backends.kernels.fourier.fft import Kind, fft
from tests.backends.kernels.test_gpu_kernels import vulkan

C, H, W, R = Kind.COMPLEX, Kind.HALF, Kind.WHOLE, Kind.REAL
#: (shape of the whole, dimension, kind, precision, inverse, threads)
CASES = [
    *(((3, n), 1, C, 32, n % 2 == 0, 128) for n in (2, 3, 4, 5, 8, 11, 16, 24, 60, 63, 64, 100, 1000, 1024)),
    ((2, 8, 5), 1, C, 32, False, 64),
    ((2, 64, 33), 1, C, 32, True, 256),
    ((300, 16), 0, C, 32, True, 128),
    *(((5, n), 1, kind, 32, False, 128) for n in (4, 9, 50) for kind in (H, W, R)),
    # Two steps, of one length and of two.
    ((2, 65536), 1, C, 32, False, 128),
    ((2, 3000, 3), 1, C, 32, True, 128),
    *(((n,), 0, kind, 32, False, 64) for n in (2048, 100_000) for kind in (H, W, R)),
    ((3, 64), 1, C, 64, False, 128),
    ((3, 1024), 1, R, 64, False, 128),
]


def made(shape, dim, kind, bits, inverse, threads):
    """The operand's spec, and kernel and table."""
    real, whole = ("f32", "c64") if bits == 32 else ("f64", "c128")
    n = shape[dim]
    given = (*shape[:dim], n // 2 + 1, *shape[dim + 1 :]) if kind is R else shape
    operand = Spec.of(given, real if kind in (H, W) else whole)
    target = dataclasses.replace(GPU, threads=threads)
    return operand, *fft(operand, dim, kind, target, length=n if kind is R else 0, inverse=inverse)


@pytest.fixture(scope="module")
def compiled(bundle):
    module, runs = bundle("vulkan-spirv"), []
    for case in CASES:
        operand, kernel, table = made(*case)
        runs.append((operand, table, module.add(kernel)))
    module.compile()
    return module, runs


class TestOnVulkan:
    pytestmark = vulkan

    @pytest.mark.parametrize("case", range(len(CASES)), ids=lambda i: "-".join(map(str, CASES[i])))
    def test_fft(self, compiled, case):
        module, runs = compiled
        shape, dim, kind, bits, inverse, _ = CASES[case]
        operand, table, number = runs[case]
        rng = np.random.default_rng(case)
        x = rng.standard_normal(operand.shape)
        if operand.dtype.parts == 2:
            x = x + 1j * rng.standard_normal(operand.shape)  # of half a spectrum two imaginary parts mean nothing
        wanted = {
            C: np.fft.ifft if inverse else np.fft.fft,
            H: np.fft.rfft,
            W: np.fft.fft,
            R: lambda x, axis: np.fft.irfft(x, shape[dim], axis),
        }[kind](x, axis=dim)
        (got,) = module.run(number, x.astype(operand.dtype.numpy()), table)
        assert got.shape == wanted.shape
        assert np.abs(got - wanted).max() < (2e-6 if bits == 32 else 1e-14) * np.abs(wanted).max()


def test_how_it_is_done():
    _, kernel, _ = made((3, 60), 1, C, 32, False, 128)
    assert kernel.reason == "fft: 60 = 4 x 3 x 5, 3 in the shared memory of a workgroup"
    _, chain, _ = made((1, 2048), 1, C, 32, False, 128)
    assert isinstance(chain, KernelChain)
    assert chain.reason == "fft: 2048 = 64 x 32 in two dispatches of workgroups' shared memory"


def test_what_is_not_taken():
    with pytest.raises(NoKernel, match="no prime factors above 13"):
        made((2, 34), 1, C, 32, False, 128)
    with pytest.raises(NoKernel, match="products of two lengths up to 1024"):
        made((1 << 21,), 0, C, 32, False, 128)


def test_cuda_takes_the_kernels(bundle):
    module = bundle("cuda")
    for shape, kind in (((4, 1000), C), ((4096,), H)):
        module.add(made(shape, len(shape) - 1, kind, 32, False, 128)[1])
    flags = ["--iree-input-type=auto", "--iree-cuda-target=sm_80"]
    assert len(compiler.compile_str(module.text(), target_backends=["cuda"], extra_args=flags)) > 1000
