"""Attention on GPUs: one dispatch, of whole rows and of tiles, whatever the sizes, the threads and what lies in between."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import quire
import quire.nn as nn
import quire.numpy as qnp
from quire.backends.stablehlo import kernel_calls

rng = np.random.default_rng(7)
#: By default only where the scores are many.
ALL = "default,fuse-attention{least-attended=1}"


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def attended(q: Any, k: Any, v: Any) -> Any:
    return nn.softmax(q @ qnp.swapaxes(k, -1, -2) * 0.3) @ v


def any_cluster(q: Any, k: Any, v: Any, bias: Any, mask: Any) -> Any:
    """No softmax, a bias and a mask, and rows that are a result too."""
    s = qnp.where(mask, q @ qnp.swapaxes(k, -1, -2) + bias, 0)
    s = s - qnp.mean(s, axis=-1, keepdims=True)
    p = qnp.tanh(s) / qnp.sqrt(1 + qnp.sum(s * s, axis=-1, keepdims=True))
    return p, p @ v


def gradient(q: Any, k: Any, v: Any, g: Any) -> Any:
    """Two first products, of which one cluster is made."""
    return quire.grad(lambda *xs: qnp.sum(attended(*xs) * g), argnums=(0, 1, 2))(q, k, v)


def with_infinities(q: Any, k: Any, v: Any) -> Any:
    return attended(q, qnp.asarray(k).at[0, 4, 0].set(qnp.inf), qnp.asarray(v).at[1, -1, 2].set(qnp.nan))


CASES = {
    "whole rows": (attended, (normal(5, 37, 19), normal(5, 101, 19), normal(5, 101, 23)), "16 rows a workgroup, whole rows"),
    "tiles": (attended, (normal(2, 50, 9), normal(2, 333, 9), normal(2, 333, 66)), "32 rows a workgroup, 64 columns"),
    "one query": (attended, (normal(20, 1, 8), normal(20, 1000, 8), normal(20, 1000, 7)), "1 rows a workgroup, whole rows"),
    "any cluster": (
        any_cluster,
        (normal(3, 31, 8), normal(3, 300, 8), normal(3, 300, 12), normal(3, 1, 300), normal(31, 300) > -1),
        "1 arrays of rows stored",
    ),
    "gradient": (
        gradient, (normal(2, 40, 8), normal(2, 280, 8), normal(2, 280, 5), normal(2, 40, 5)), "2 arrays of rows stored",
    ),
    "infinities": (with_infinities, (normal(2, 33, 4), normal(2, 350, 4), normal(2, 350, 4)), "64 columns at a time"),
}  # fmt: skip


def _everything(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: CASES[name][0](*given) for name, given in arguments.items()}


def _device() -> Any | None:
    try:
        return quire.devices("vulkan")[0]
    except (RuntimeError, ValueError, IndexError):
        return None


on_vulkan = [pytest.mark.vulkan, pytest.mark.skipif(_device() is None, reason="no Vulkan device")]


def compare(got: Any, wanted: Any, name: str) -> None:
    for x, y in zip(got if isinstance(got, tuple) else [got], wanted if isinstance(wanted, tuple) else [wanted]):
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=1e-5 * np.nanmax(np.abs(y)), err_msg=name)


class TestOnVulkan:
    pytestmark = on_vulkan

    def test_results(self) -> None:
        arguments = {name: given for name, (_, given, _) in CASES.items()}
        got = quire.compile(_everything, backend="vulkan", passes=ALL)(arguments)
        with quire.disable_jit(), np.errstate(invalid="ignore"):
            wanted = _everything(arguments)
        for name in CASES:
            compare(got[name], wanted[name], name)

    def test_in_a_loop_in_double_precision(self) -> None:
        """Its result is the next queries; what is read again is as it was. Vulkan has no exponential of float64."""
        given = tuple(x.astype(np.float64) for x in (normal(2, 40, 8), normal(2, 300, 8), normal(2, 300, 8)))

        def attend(q: Any, k: Any, v: Any) -> Any:
            s = q @ qnp.swapaxes(k, -1, -2)
            s = s - qnp.max(s, axis=-1, keepdims=True)
            return s / (1 + qnp.sum(s * s, axis=-1, keepdims=True)) @ v

        def f(q: Any, k: Any, v: Any) -> Any:
            return quire.lax.fori_loop(0, 3, lambda i, c: c + attend(c, k, v), q), q

        with quire.enable_x64(True):
            compiled = quire.compile(f, backend="vulkan", passes=ALL)
            assert ": kernel attention" in compiled.lower(*given).as_text()
            got = compiled(*given)
            with quire.disable_jit():
                wanted = f(*given)
        for x, y in zip(got, wanted):
            np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12)

    @pytest.mark.parametrize("threads", [64, 256])
    def test_other_numbers_of_threads(self, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
        usual = kernel_calls.kernel_target
        monkeypatch.setattr(kernel_calls, "kernel_target", lambda t: dataclasses.replace(usual(t), threads=threads))
        for name in ("whole rows", "any cluster"):
            f, given, _ = CASES[name]
            with quire.disable_jit():
                wanted = f(*given)
            compare(quire.compile(lambda *xs, f=f: f(*xs), backend="vulkan", passes=ALL)(*given), wanted, name)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", ["vulkan", "cuda"])
def test_each_is_one_kernel(name: str, backend: str) -> None:
    f, given, what = CASES[name]
    text = quire.compile(f, passes=ALL).trace(*given).lower(backend=backend).as_text()
    (chosen,) = [line for line in text.splitlines() if line.startswith("// fusion")]
    assert "kernel attention" in chosen
    if backend == "vulkan":
        assert what in chosen


def test_cuda_takes_it_with_vectors() -> None:
    x = normal(4, 256, 64)
    code = quire.compile(attended, passes=ALL).trace(x, x, x).lower(backend="cuda").as_text("code")
    assert "ld.shared.v4." in code and "ld.global.nc.v4." in code and "ld.local" not in code


def test_what_is_declined() -> None:
    """16-bit operands, and lines that do not fit: the reason is printed, and the operations are as they were."""
    x = normal(4, 256, 64)

    def halves(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (a.astype(np.float16) for a in (q, k, v))
        s = quire.lax.dot_general(q, k, (((2,), (2,)), ((0,), (0,))), preferred_element_type=np.float32)
        return quire.lax.dot_general(
            nn.softmax(s), v, (((2,), (1,)), ((0,), (0,))), preferred_element_type=np.float32
        )  # fmt: skip

    text = quire.compile(halves, passes=ALL).trace(x, x, x).lower(backend="cuda").as_text()
    assert "products of 16-bit floats are for matrix units, which its kernel does not use" in text
    long = normal(4, 256, 9000)
    text = quire.compile(attended, passes=ALL).trace(long, long, x).lower(backend="cuda").as_text()
    assert "4 rows do not fit into the 49152 bytes of shared memory" in text


def test_few_scores_are_left_to_separate_dispatches() -> None:
    for n, kernels in ((256, 0), (1024, 1)):
        x = normal(1, n, 8), normal(1, 1024, 8), normal(1, 1024, 8)
        text = quire.jit(attended).trace(*x).lower(backend="cuda").as_text()
        assert text.count(": kernel attention") == kernels
