"""Clusters side by side in one kernel: leaves of many sizes and dtypes against the reference, in place against copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import tree_util
from quire.backends.kernels.core.errors import NoKernel
from quire.backends.kernels.core.kernel import Spec
from quire.backends.kernels.core.target import GPU
from quire.backends.kernels.fused.alike import Part, alike_kernel
from quire.backends.stablehlo.kernel_calls import kernel_target
from quire.backends.stablehlo.loop_kernels import expander
from quire.backends.targets import TARGETS
from quire.compiling.lowering import lower_optimized
from quire.compiling.request import Request
from quire.ir.config import config
from quire.passes.fusion.updates import LEAST_BYTES
from quire.passes.manager import PassManager
from tests.frontend.test_memory import address, on_device
from tests.helpers import Case, check, trace

R = np.random.default_rng(0)


def array(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    if "int" in dtype:
        return R.integers(1, 100, shape).astype(dtype)
    if dtype == "bool":
        return R.random(shape) < 0.5
    x = R.random(shape) + 0.1
    if dtype.startswith("complex"):
        return (x + 1j * R.random(shape)).astype(dtype)
    return x.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def leaves(count: int, sizes: Sequence[int | tuple[int, ...]], dtype: str = "float32") -> list[np.ndarray]:
    """`count` arrays of each size: first one of each, then the next."""
    return [array(s if isinstance(s, tuple) else (s,), dtype) for _ in range(count) for s in sizes]


def each(update: Callable[..., Any], count: int) -> Callable[..., Any]:
    """An update of `count` arrays, of each leaf; all results in one list."""
    return lambda *xs: tree_util.tree_leaves([update(*xs[k :: len(xs) // count]) for k in range(len(xs) // count)])


def adam(p: Any, g: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p - 1e-3 * m / (qnp.sqrt(v) + 1e-8), m, v


def momentum(p: Any, g: Any, m: Any) -> tuple[Any, Any]:
    m = m * 2 + g
    return p - m, m


def pair(x: Any, y: Any) -> Any:
    return qnp.where(x > y, x * 2 + y, y - x), (x > y) & (x != y), x * x - y


def one_each(rate: Any, *xs: Any) -> Any:
    """A number of its own for each leaf, and one that all read."""
    return each(lambda p, g, own: p * rate - own * g, 3)(*xs)


SIZES = (1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 100, 4099)
CASES = [
    *[Case(f"adam, {a} and others", each(adam, 4), leaves(4, SIZES[k : k + 4]), rtol=1e-5)
      for k, a in enumerate(SIZES[:-3])],
    Case("single elements", each(adam, 4), leaves(4, (1, (1, 1), 1)), rtol=1e-5),
    Case("heavy numbers", lambda *xs: [qnp.log(x) for x in xs], leaves(1, ((), (1,), (), (1, 1)), "complex64"), rtol=1e-5),
    Case("less than a vector", each(adam, 4), leaves(4, (3, (2, 2))), rtol=1e-5),
    Case("several workgroups", each(adam, 4), leaves(4, ((150, 151), 17, 40_000, (31, 1000))), rtol=1e-5),
    Case("more than a set", each(momentum, 3), leaves(3, ((150, 151), 17, 40_000, (31, 1000), 5, 6, 60_001, 9, 1)), rtol=1e-5),
    Case("as many arrays as may be bound", each(lambda x: x * 2 + 1, 1), leaves(1, range(20, 36)), rtol=1e-5),
    Case("numbers", one_each, [*leaves(1, ((),)), *leaves(2, (20, 30, 40, 50)), *leaves(1, ((),) * 4)], rtol=1e-5),
    *[Case(dtype, each(pair, 2), leaves(2, (5, 40, 1001, 3), dtype), rtol=1e-2 if "16" in dtype else 1e-5, atol=1e-2)
      for dtype in ("float16", "bfloat16", "int32", "uint8", "int8", "uint32")],
    Case("complex64", each(momentum, 3), leaves(3, (5, 40, 1001, 3), "complex64"), rtol=1e-5),
]  # fmt: skip
WIDE = [
    Case(dtype, each(momentum, 3), leaves(3, (5, 40, 1001, 3), dtype), rtol=1e-12)
    for dtype in ("float64", "int64", "complex128")
]


def lowered(case: Case) -> str:
    closed = PassManager(TARGETS["cpu"].pipeline, target=TARGETS["cpu"]).run(trace(case.f, case.args))
    return lower_optimized(Request(closed, TARGETS["cpu"], "f"), closed).module.text()


def test_leaves_of_all_sizes_and_dtypes():
    check(CASES)
    for case in CASES:
        assert "side by side" in lowered(case), case.name


def test_wide_dtypes():
    with config.override(enable_x64=True):
        check(WIDE)
        for case in WIDE:
            assert "side by side" in lowered(case), case.name


def test_sets_of_other_sizes_share_an_executable():
    text = lowered(Case("leaves", each(adam, 4), leaves(4, (20, 30, 40, 50, 60, 70, 80, 90))))
    assert text.count("= flow.dispatch @") == 2 and text.count("stream.executable private") == 1


def test_donated_leaves_are_updated_in_place():
    """Sizes with and without a rest, several sets; leaves too small for an update in place, beside them."""
    sizes = (4096, 4097, (70, 80), 30_001, (300, 301), 5, 4111, 9001, (64, 64), 7)

    def step(state: Any, gs: Any, rate: Any) -> Any:
        new = [adam(p, g * rate, m, v) for p, m, v, g in zip(*state, gs)]
        return [[leaf[k] for leaf in new] for k in range(3)]

    gs = leaves(1, sizes)
    given = [leaves(1, sizes) for _ in range(3)]
    kept, donating = quire.compile(step), quire.compile(step, donate_argnums=0)
    text = donating.lower(given, gs, np.float32(0.5)).as_text("stablehlo")
    # The large one is alone, and the two small ones are not in place.
    assert [f"{n} clusters alike" in text for n in (2, 7, 8, 10)] == [True, True, False, False]
    assert text.count("updated in place") == 2
    want, got = (on_device(given) for _ in range(2))
    for rate in (np.float32(0.5), np.float32(2)):
        want = kept(want, gs, rate)
        places = [address(x) for x in tree_util.tree_leaves(got)]
        got = donating(got, gs, rate)
        for x, place in zip(tree_util.tree_leaves(got), places, strict=True):
            assert address(x) == place or x.nbytes < LEAST_BYTES
    for x, y in zip(tree_util.tree_leaves(got), tree_util.tree_leaves(want), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5)


def test_reasons_where_there_is_no_kernel():
    target, expand = kernel_target(TARGETS["cpu"]), expander(TARGETS["cpu"])
    assert target is not None
    parts = (Part(12, (0, 1), (0,)), Part(24, (2, 1), (1,)))
    specs = tuple(Spec.of(s, np.float32) for s in ((3, 4), (4,), (6, 4)))
    body = trace(lambda x, row: x + row, [array((6, 4)), array((4,))]).jaxpr
    with pytest.raises(NoKernel, match="broadcasts of arrays"):
        alike_kernel(body, parts, specs, (specs[0], specs[2]), False, target, expand, 1)
    with pytest.raises(NoKernel, match="CPUs"):
        alike_kernel(body, parts, specs, (specs[0], specs[2]), False, GPU, expand, 1)
