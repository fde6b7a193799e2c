"""Products on matrix units. These are CUDA's: on Vulkan the kernels run with fragments whose elements are computed one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.backends.kernels import GPU, KernelBuilder, NoKernel, Spec
from quire.backends.kernels.core.values import Buffer, Value
from quire.backends.kernels.products.matrices import product
from quire.backends.kernels.products.matrix_units import FRAGMENT, I8, SUBGROUP, TF32, Unit, by_matrix_units

rng = np.random.default_rng(3)
#: Columns of a fragment that one thread computes.
EACH = FRAGMENT * FRAGMENT // SUBGROUP


@dataclasses.dataclass(frozen=True)
class OneByOne(Unit):
    """A unit of plain arithmetic: each thread has 8 neighbours of a fragment's 16 x 16 sums."""

    def zero(self, b: KernelBuilder) -> list[Value]:
        return [b.const(0, self.total)] * EACH

    def _place(self, b: KernelBuilder) -> tuple[Value, Value]:
        row, half = b.divmod(b.urem(b.thread_id(), SUBGROUP), FRAGMENT // EACH)
        return row, half * EACH

    def product(
        self, b: KernelBuilder, sums: Sequence[Value], left: tuple[Buffer, Value], right: tuple[Buffer, Value]
    ) -> list[Value]:
        row, column = self._place(b)
        with b.for_(0, self.depth, 1, sums) as loop:
            l = loop.index
            x = b.cast(b.load(left[0], left[1] + row * self.depth + l), self.total)
            ys = (b.load(right[0], right[1] + l * FRAGMENT + column + k) for k in range(EACH))
            loop.yield_(*(s + x * b.cast(y, self.total) for s, y in zip(loop.carried, ys)))
        return loop.results

    def store(self, b: KernelBuilder, sums: Sequence[Value], memory: Buffer, at: Value) -> None:
        row, column = self._place(b)
        for k, x in enumerate(sums):
            b.store(x, memory, at + row * FRAGMENT + column + k)


def one_by_one(unit: Unit) -> OneByOne:
    return OneByOne(**{f.name: getattr(unit, f.name) for f in dataclasses.fields(unit)})


def tf32(x: np.ndarray) -> np.ndarray:
    """Rounded to 10 bits of mantissa, by the definition: a multiple of 2^(exponent - 10), halves away from zero."""
    step = 2.0 ** (np.floor(np.log2(np.abs(np.where(x == 0, 1, x)))) - 10)
    return np.sign(x) * np.floor(np.abs(x) / step + 0.5) * step


MATRICES = (((1,), (0,)), ((), ()))
#: name -> (shapes, dimension numbers, unit); Mesa's driver takes seconds to compile each
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], Any, Unit]] = {
    "odd sizes": ((75, 37), (37, 70), MATRICES, TF32),
    "stacks": ((2, 64, 32), (2, 32, 17), (((2,), (1,)), ((0,), (0,))), TF32),
    "both transposed": ((40, 70), (66, 40), (((0,), (1,)), ((), ())), I8),
}


@pytest.fixture(scope="module")
def compiled(bundle: Any) -> Any:
    module = bundle("vulkan-spirv")
    numbers = {}
    for name, (x, y, dims, unit) in CASES.items():
        p = product(x, y, dims)
        specs = (Spec.of(x, unit.elem), Spec.of(y, unit.elem), Spec.of((*p.batch, p.m, p.n), unit.total))
        numbers[name] = module.add(by_matrix_units(p, one_by_one(unit), specs, GPU))
    return module.compile(), numbers


def _device() -> Any | None:
    try:
        return quire.devices("vulkan")[0]
    except (RuntimeError, ValueError, IndexError):
        return None


@pytest.mark.vulkan
@pytest.mark.skipif(_device() is None, reason="no Vulkan device")
class TestOneByOne:
    def test_integers(self, compiled: Any) -> None:
        module, numbers = compiled
        x, y = (rng.integers(-128, 128, shape, np.int8) for shape in CASES["both transposed"][:2])
        (got,) = module.run(numbers["both transposed"], x, y)
        np.testing.assert_array_equal(got, x.T.astype(np.int32) @ y.T.astype(np.int32))

    @pytest.mark.parametrize("name", ["odd sizes", "stacks"])
    def test_floats_are_rounded_once(self, compiled: Any, name: str) -> None:
        module, numbers = compiled
        x, y = (rng.standard_normal(shape).astype(np.float32) for shape in CASES[name][:2])
        (got,) = module.run(numbers[name], x, y)
        np.testing.assert_allclose(got, tf32(x.astype(np.float64)) @ tf32(y.astype(np.float64)), rtol=1e-4, atol=1e-4)
        exact = x.astype(np.float64) @ y.astype(np.float64)
        assert 1e-5 < np.max(np.abs(got - exact)) < 1e-2 * np.max(np.abs(exact))

    def test_nan_and_infinity_reach_their_own_rows_and_columns(self, compiled: Any) -> None:
        module, numbers = compiled
        x, y = (np.abs(rng.standard_normal(shape)).astype(np.float32) + 1 for shape in CASES["odd sizes"][:2])
        x.flat[-1], y.flat[-1] = np.inf, np.frombuffer(np.uint32(0x7F800001).tobytes(), np.float32)[0]
        (got,) = module.run(numbers["odd sizes"], x, y)
        with np.errstate(invalid="ignore"):
            wanted = x @ y
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(wanted))


def dot(x: Any, y: Any, precision: Any = None) -> Any:
    return quire.lax.dot(x, y, precision=precision, preferred_element_type=np.int32 if x.dtype == np.int8 else None)


class TestChoice:
    def lowered(self, precision: Any, dtype: Any = np.float32, size: int = 256) -> Any:
        x = np.ones((size, size), dtype)
        return quire.jit(lambda x, y: dot(x, y, precision)).trace(x, x).lower(backend="cuda")

    @pytest.mark.parametrize("precision", ["tensorfloat32", "high", "fastest", quire.lax.Precision.HIGH])
    def test_coarse_floats(self, precision: Any) -> None:
        lowered = self.lowered(precision)
        assert "kernel gemm_tf32" in lowered.as_text()
        code = lowered.as_text("code")
        assert "wmma.mma.sync.aligned.row.row.m16n16k8.f32.tf32.tf32.f32" in code and "ld.local" not in code
        assert "wmma.load.a.sync.aligned.row" in code and "wmma.load.b.sync.aligned.row" in code

    def test_integers(self) -> None:
        lowered = self.lowered(None, np.int8)
        assert "kernel gemm_i8" in lowered.as_text()
        assert "wmma.mma.sync.aligned.row.row.m16n16k16.s32.s8.s8.s32" in lowered.as_text("code")

    @pytest.mark.parametrize("precision", [None, "highest", ("highest", "high")])
    def test_floats_in_full(self, precision: Any) -> None:
        text = self.lowered(precision).as_text()
        assert "kernel gemm" not in text and "the default precision is float32 in full" in text

    def test_the_option_and_the_gradient(self) -> None:
        def loss(x: Any, y: Any) -> Any:
            return qnp.sum(qnp.tanh(x @ y))

        x = np.ones((256, 256), np.float32)
        with quire.default_matmul_precision("tensorfloat32"):
            text = quire.jit(quire.grad(loss, (0, 1))).trace(x, x).lower(backend="cuda").as_text()
        assert text.count(": kernel gemm_tf32") == 3

    def test_what_is_left_to_the_compiler(self) -> None:
        assert "fewer than 4194304 operations" in self.lowered("high", size=64).as_text()
        assert "no matrix unit for f16 @ f16 in f32" in self.lowered("high", np.float16).as_text()
        p = product((256, 256), (256, 256), MATRICES)
        specs = [Spec.of((256, 256), "f32")] * 3
        with pytest.raises(NoKernel, match="workgroups of 64 threads"):
            by_matrix_units(p, TF32, specs, dataclasses.replace(GPU, threads=64))
        summed = product((8, 256, 256), (256, 8, 256), (((0, 2), (1, 0)), ((), ())))
        with pytest.raises(NoKernel, match="sums over dimensions that are not one"):
            by_matrix_units(summed, TF32, specs, GPU)

    def test_gpus_without_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("QUIRE_CUDA_TARGET", "sm_75")
        from quire.backends.targets import cuda_target

        x = np.ones((256, 256), np.float32)
        text = quire.jit(lambda x: dot(x, x, "high")).trace(x).lower(backend="vulkan").as_text()
        assert "the target has no matrix units for tf32" in text
        assert cuda_target().matrix_units == ("i8",) and cuda_target("sm_60").matrix_units == ()
