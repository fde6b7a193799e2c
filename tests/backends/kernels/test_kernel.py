"""The kernel op in a module (insertion, calls, in-place results) and the builder's text and errors."""

from __future__ import annotations

import re

import iree.compiler as compiler
import iree.runtime as rt
import numpy as np
import pytest
from iree.compiler import ir

from quire.backends.kernels import (
    CPU_AVX2,
    DTYPES,
    EMPTY,
    Kernel,
    KernelBuilder,
    NoKernel,
    Spec,
    cumulative,
    dtype_of,
    scatter,
    sort,
    top_k,
)
from quire.ir.primitives.indexing import ScatterDimensionNumbers


def reverse_kernel(n: int) -> object:
    spec = Spec.of((n,), "u16")
    b = KernelBuilder("reverse", [spec], [spec], CPU_AVX2)
    with b.for_(0, n) as loop:
        b.store(b.load(b.operand(0), loop.index), b.result(0), b.index(n - 1) - loop.index)
    return b.build((1,), "test")


def test_equal_kernels_are_one_op(bundle):
    assert reverse_kernel(5) == reverse_kernel(5)
    assert reverse_kernel(5).name != reverse_kernel(6).name
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        for n in (5, 6, 5):
            reverse_kernel(n).insert(module)
        assert len(module.body.operations) == 2
        assert module.operation.verify()


def test_unsigned_operands_pass_through(bundle):
    module = bundle()
    number = module.add(reverse_kernel(5))
    module.compile()
    x = np.array([1, 65535, 3, 40000, 5], np.uint16)
    np.testing.assert_array_equal(module.run(number, x)[0], x[::-1])


def test_wrong_operands_are_refused():
    kernel = cumulative("sum", Spec.of((4,), "f32"), 0, CPU_AVX2)
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse("func.func @f(%x: tensor<5xf32>) { return }")
        (argument,) = module.body.operations[0].regions[0].blocks[0].arguments
        with ir.InsertionPoint.at_block_begin(module.body.operations[0].regions[0].blocks[0]):
            with pytest.raises(ValueError, match=r"expected tensor<4xf32>, got tensor<5xf32>"):
                kernel.call([argument])
            with pytest.raises(ValueError, match="takes 1 operands, got 0"):
                kernel.call([])


def run_module(text: str, kernels: dict[str, object], *arrays: np.ndarray) -> list[np.ndarray]:
    """Run ``@f`` of a module in which each op ``"call.<name>"`` stands for a call of a kernel."""
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(text)
        for op in list(module.body.operations[0].regions[0].blocks[0].operations):
            kernel = kernels.get(op.operation.name.removeprefix("call."))
            if kernel is not None:
                kernel.insert(module)
                with ir.InsertionPoint(op):
                    results = kernel.call(list(op.operation.operands))
                for old, new in zip(op.operation.results, results):
                    old.replace_all_uses_with(new)
                op.operation.erase()
        assert module.operation.verify()
        source = str(module)
    flags = ["--iree-llvmcpu-target-cpu=host", "--iree-input-type=auto"]
    binary = compiler.compile_str(source, target_backends=["llvm-cpu"], extra_args=flags)
    context = rt.SystemContext(config=rt.Config("local-sync"))
    context.add_vm_module(rt.VmModule.copy_buffer(context.instance, binary))
    return [np.array(r.to_host()) for r in context.modules.module["f"](*arrays)]


def added(shape, at, new) -> np.ndarray:
    out = np.zeros(shape, new.dtype) if isinstance(shape, int) else shape.copy()
    for place, value in zip(at, new):
        if 0 <= place < len(out):
            out[place] += value
    return out


def test_in_place_results_leave_other_uses_alone():
    """An intermediate value keeps its own memory while it has another use, also as the updates."""
    spec, indices = Spec.of((6,), "f32"), Spec.of((6, 1), "i32")
    text = """
    func.func @f(%a: tensor<6xf32>, %i: tensor<6x1xi32>) -> (tensor<6xf32>, tensor<6xf32>) {
      %x = stablehlo.add %a, %a : tensor<6xf32>
      %y = "call.scatter"(%x, %i, %x)
        : (tensor<6xf32>, tensor<6x1xi32>, tensor<6xf32>) -> tensor<6xf32>
      return %x, %y : tensor<6xf32>, tensor<6xf32>
    }"""
    a, i = np.arange(6, dtype=np.float32), np.array([[5], [5], [0], [1], [2], [-1]], np.int32)
    kernel = scatter("add", spec, indices, spec, ScatterDimensionNumbers((), (0,), (0,)), CPU_AVX2)
    x, y = run_module(text, {"scatter": kernel}, a, i)
    np.testing.assert_array_equal(x, 2 * a)
    np.testing.assert_array_equal(y, added(2 * a, i[:, 0], 2 * a))


def test_kernels_among_other_operations():
    """Constants updated in place, computed booleans, unsigned operands, kernels after kernels."""
    n = 200
    f32, place = Spec.of((n,), "f32"), Spec.of((n,), "i32")
    kernels = {
        "scatter": scatter("add", f32, Spec.of((n, 1), "i32"), f32, ScatterDimensionNumbers((), (0,), (0,)), CPU_AVX2),
        "flags": sort([Spec.of((n,), "bool"), place], 0, 1, CPU_AVX2),
        "words": sort([Spec.of((n,), "u32")], 0, 1, CPU_AVX2),
        "constant": sort([Spec.of((4,), "f32")], 0, 1, CPU_AVX2),
    }
    text = """
    func.func @f(%x: tensor<200xf32>, %w: tensor<200xui32>) -> (tensor<200xf32>, tensor<200xf32>,
                 tensor<200xi1>, tensor<200xi32>, tensor<200xui32>, tensor<4xf32>) {
      %zero = stablehlo.constant dense<0.0> : tensor<200xf32>
      %i = stablehlo.iota dim = 0 : tensor<200xi32>
      %half = stablehlo.constant dense<2> : tensor<200xi32>
      %j = stablehlo.divide %i, %half : tensor<200xi32>
      %at = stablehlo.reshape %j : (tensor<200xi32>) -> tensor<200x1xi32>
      %once = "call.scatter"(%zero, %at, %x)
        : (tensor<200xf32>, tensor<200x1xi32>, tensor<200xf32>) -> tensor<200xf32>
      %again = "call.scatter"(%zero, %at, %once)
        : (tensor<200xf32>, tensor<200x1xi32>, tensor<200xf32>) -> tensor<200xf32>
      %positive = stablehlo.compare GT, %x, %zero : (tensor<200xf32>, tensor<200xf32>) -> tensor<200xi1>
      %flags:2 = "call.flags"(%positive, %i)
        : (tensor<200xi1>, tensor<200xi32>) -> (tensor<200xi1>, tensor<200xi32>)
      %not = stablehlo.not %flags#0 : tensor<200xi1>
      %doubled = stablehlo.add %w, %w : tensor<200xui32>
      %words = "call.words"(%doubled) : (tensor<200xui32>) -> tensor<200xui32>
      %more = stablehlo.add %words, %words : tensor<200xui32>
      %four = stablehlo.constant dense<[3.0, 1.0, 2.0, 0.0]> : tensor<4xf32>
      %sorted = "call.constant"(%four) : (tensor<4xf32>) -> tensor<4xf32>
      return %once, %again, %not, %flags#1, %more, %sorted : tensor<200xf32>, tensor<200xf32>,
        tensor<200xi1>, tensor<200xi32>, tensor<200xui32>, tensor<4xf32>
    }"""
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, n).astype(np.float32)
    w = rng.integers(0, 2**32, n, dtype=np.uint32)
    once, again, negative, places, words, four = run_module(text, kernels, x, w)
    at = np.arange(n) // 2
    np.testing.assert_array_equal(once, added(n, at, x))
    np.testing.assert_array_equal(again, added(n, at, once))
    np.testing.assert_array_equal(negative, ~np.sort(x > 0))
    np.testing.assert_array_equal(places, np.argsort(x > 0, kind="stable"))
    np.testing.assert_array_equal(words.view(np.uint32), np.sort(w + w) * np.uint32(2))
    np.testing.assert_array_equal(four, [0, 1, 2, 3])


def test_empty_results_of_every_dtype(bundle):
    module = bundle()
    numbers = {
        name: module.add(Kernel.nothing("none", [], [Spec.of((3, 0, 2), name)], [EMPTY], "test")) for name in DTYPES
    }
    module.compile()
    for name, number in numbers.items():
        (got,) = module.run(number)
        assert got.shape == (3, 0, 2) and got.dtype == DTYPES[name].numpy()


def test_workgroups_on_several_threads(bundle):
    """Shares of rows, scratch and stack do not meet."""
    rng = np.random.default_rng(0)
    module = bundle(driver="local-task")
    f, i = Spec.of((200, 300), "f32"), Spec.of((200, 300), "i32")
    ordered = module.add(sort([f, i], 1, 1, CPU_AVX2))
    largest = module.add(top_k(Spec.of((9, 4000), "f64"), 40, CPU_AVX2))
    sums = module.add(cumulative("sum", Spec.of((40, 700), "i64"), 0, CPU_AVX2))
    grids = [re.findall(r"%x = arith.constant (\d+)", k.text)[0] for k in module.kernels]
    assert grids == ["16", "9", "2"]
    module.compile()
    for _ in range(20):
        x = rng.standard_normal((200, 300)).astype(np.float32)
        places = np.broadcast_to(np.arange(300, dtype=np.int32), x.shape).copy()
        np.testing.assert_array_equal(module.run(ordered, x, places)[1], np.argsort(x, axis=1, kind="stable"))
        x = rng.standard_normal((9, 4000))
        np.testing.assert_array_equal(module.run(largest, x)[1], np.argsort(-x, axis=1)[:, :40])
        x = rng.integers(-9, 9, (40, 700))
        np.testing.assert_array_equal(module.run(sums, x)[0], np.cumsum(x, axis=0))


def test_text_is_the_same_each_time():
    def make():
        return sort([Spec.of((3, 200), "f32"), Spec.of((3, 200), "c128")], 1, 1, CPU_AVX2)

    first, second = make(), make()
    assert first.text == second.text and first.name == second.name
    assert first.reason == "sort of 3 rows of 200: radix, key and place in one word"
    assert [str(s) for s in first.outputs] == ["f32[3,200]", "c128[3,200]"]


def test_builder_errors():
    spec = Spec.of((4,), "f32")
    b = KernelBuilder("k", [spec], [spec], CPU_AVX2)
    with pytest.raises(ValueError, match=r"a view \(5,\) x f32 is larger than f32\[4\]"):
        b.operand(0, (5,))
    with pytest.raises(NoKernel, match="more than 32768 bytes of stack"):
        b.stack((10_000,), "f32")
    with pytest.raises(TypeError, match="expected i32, got f32"):
        b.const(1, "i32") + b.const(1.0, "f32")
    with pytest.raises(TypeError, match="not known while it is built"):
        bool(b.const(1, "i1"))
    with pytest.raises(ValueError, match="needs yield_ before its block ends"):
        with b.for_(0, 4, init=[b.const(0, "i32")]):
            pass
    with pytest.raises(ValueError, match="holds no elements"):
        KernelBuilder("k", [Spec.of((0,), "f32")], [], CPU_AVX2)
    with pytest.raises(TypeError, match="no element type for"):
        dtype_of("complex256" if hasattr(np, "complex256") else "S3")
