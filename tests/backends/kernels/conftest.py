"""Compiling many kernels in one module, and running them on local-sync."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import iree.compiler as compiler
import iree.runtime as rt
import numpy as np
import pytest
from iree.compiler import ir

from quire.backends.kernels import Kernel

FLAGS = {
    "llvm-cpu": ["--iree-llvmcpu-target-cpu=host"],
    "vulkan-spirv": ["--iree-vulkan-target=ampere"],
}
COMMON = ["--iree-input-type=auto", "--iree-input-demote-f64-to-f32=false"]
DRIVERS = {"llvm-cpu": "local-sync", "vulkan-spirv": "vulkan"}


@dataclass
class Bundle:
    """Kernels that share one module: ``add`` them, ``compile`` once, then ``run`` each by its number.

    Each kernel is called by a function of its own whose arguments are copied by the runtime on each call
    (they are NumPy arrays), so tied operands may be written. The compiler runs as a subprocess.
    """

    backend: str = "llvm-cpu"
    driver: str | None = None
    kernels: list[Kernel] = field(default_factory=list)
    functions: dict[int, object] = field(default_factory=dict)
    device: rt.HalDevice | None = None

    def add(self, kernel: Kernel) -> int:
        """Register a kernel and return its number."""
        self.kernels.append(kernel)
        return len(self.kernels) - 1

    def text(self) -> str:
        """The module of all kernels."""
        with ir.Context(), ir.Location.unknown():
            module = ir.Module.create()
            for number, kernel in enumerate(self.kernels):
                kernel.insert(module)
                with ir.InsertionPoint(module.body):
                    self._function(f"f{number}", kernel)
            assert module.operation.verify()
            return str(module)

    @staticmethod
    def _function(name: str, kernel: Kernel) -> None:
        from iree.compiler.dialects import func

        def tensors(specs: Sequence) -> list[ir.Type]:
            return [ir.RankedTensorType.get(list(s.shape), ir.Type.parse(s.dtype.boundary)) for s in specs]

        f = func.FuncOp(name, (tensors(kernel.operands), tensors(kernel.outputs)))
        with ir.InsertionPoint(f.add_entry_block()):
            func.ReturnOp(kernel.call(list(f.arguments)))

    def compile(self) -> Bundle:
        """Compile and load all kernels added so far."""
        binary = compiler.compile_str(
            self.text(), target_backends=[self.backend], extra_args=[*COMMON, *FLAGS[self.backend]]
        )
        self.device = rt.get_driver(self.driver or DRIVERS[self.backend]).create_default_device()
        context = rt.SystemContext(config=rt.Config(device=self.device))
        context.add_vm_module(rt.VmModule.copy_buffer(context.instance, binary))
        module = context.modules.module
        self.functions = {i: module[f"f{i}"] for i in range(len(self.kernels))}
        return self

    def run(self, number: int, *arrays: np.ndarray) -> list[np.ndarray]:
        """The results of one kernel, with the NumPy dtypes of its specs."""
        kernel = self.kernels[number]
        results = self.functions[number](*arrays)
        if not isinstance(results, tuple | list):
            results = [results]
        out = []
        for result, spec in zip(results, kernel.outputs):
            array = np.array(result.to_host()) if self.backend == "llvm-cpu" else self._fetch(result)
            wanted = spec.dtype.numpy()
            out.append(array if array.dtype == wanted else array.view(wanted))
        return out

    def _fetch(self, result: rt.DeviceArray) -> np.ndarray:
        """Copy a device array to the host (``to_host`` wants an alignment that NumPy does not give)."""
        view = result._buffer_view
        source, size = view.get_buffer(), view.get_buffer().byte_length()
        staging = self.device.allocator.allocate_buffer(
            int(rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE),
            int(rt.BufferUsage.TRANSFER_TARGET | rt.BufferUsage.MAPPING_SCOPED),
            size,
        )
        semaphore = self.device.create_semaphore(0)
        start, end = (rt.HalFence.create_at(semaphore, i) for i in (0, 1))
        self.device.queue_copy(source, staging, wait_semaphores=start, signal_semaphores=end)
        end.wait()
        words = np.array(staging.map().asarray([size], np.dtype(np.uint8)))
        return words.view(result.dtype).reshape(view.shape)


@pytest.fixture(scope="module")
def bundle() -> type[Bundle]:
    """The class :class:`Bundle` (test modules cannot import each other)."""
    return Bundle


def sample(dtype: np.dtype, shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Values with many ties, zeros of both signs, infinities, NaNs of several payloads, denormals."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        wide = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.5, wide, (rng.integers(0, 5, shape)).astype(dtype))
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return np.ascontiguousarray(sample(part, (*shape, 2), rng)).view(dtype)[..., 0]
    word = np.dtype(f"u{dtype.itemsize}")
    one = np.ones(1, dtype).view(word)[0]
    infinity = int(np.array([np.inf]).astype(dtype).view(word)[0])
    top = 1 << (dtype.itemsize * 8 - 1)
    patterns = [0, top, 1, top | 1, infinity, infinity | top, infinity | 1, infinity | top | 1, infinity | 3]
    special = np.array([*patterns, int(one), int(one) | top], word).view(dtype)
    numbers = rng.standard_normal(max(4, int(np.prod(shape)) // 3)).astype(dtype)
    pool = np.concatenate([special, numbers])
    return pool[rng.integers(0, len(pool), shape)]


def bits(x: np.ndarray) -> np.ndarray:
    """The bytes of an array as unsigned words (two a complex128), for exact comparison."""
    x = np.ascontiguousarray(x)
    if x.dtype.itemsize == 16:
        return x.view(np.uint64)
    return x.view(f"u{x.dtype.itemsize}")


def order_keys(x: np.ndarray, total: bool = False) -> list[np.ndarray]:
    """Integer arrays whose lexicographic order is JAX's order of x (IEEE's if `total`), most significant first."""
    if x.dtype.kind == "c":
        return [*order_keys(x.real.copy(), total), *order_keys(x.imag.copy(), total)]
    if x.dtype.kind in "biu":
        return [x]
    width = x.dtype.itemsize * 8
    word = bits(x).astype(np.uint64)
    top = 1 << (width - 1)
    magnitude = (word & np.uint64(top - 1)).astype(np.int64)
    key = np.where(word & np.uint64(top), -magnitude - total, magnitude)
    infinity = int(np.array([np.inf]).astype(x.dtype).view(f"u{x.dtype.itemsize}")[0])
    return [key if total else np.where(magnitude > infinity, np.int64(2**63 - 1), key)]


@pytest.fixture(scope="session")
def tools() -> type:
    """The functions of this file, for test modules."""

    class Tools:
        pass

    Tools.sample, Tools.bits, Tools.order_keys = map(staticmethod, (sample, bits, order_keys))
    return Tools
