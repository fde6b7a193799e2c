"""Kernels of equal jaxprs are written once."""

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.backends.kernels.core.builder import KernelBuilder
from quire.backends.kernels.core.errors import NoKernel
from quire.backends.kernels.core.memoized import memoized


def test_a_result_is_kept_for_equal_arguments_and_so_is_the_reason_of_none():
    calls = []

    @memoized(4)
    def kernel(x: int, *, width: int = 0) -> str:
        calls.append((x, width))
        if x < 0:
            raise NoKernel("negative")
        return f"kernel {x}"

    assert [kernel(1), kernel(1), kernel(1, width=2)] == ["kernel 1"] * 3
    for _ in range(2):
        with pytest.raises(NoKernel, match="negative"):
            kernel(-1)
    assert calls == [(1, 0), (1, 2), (-1, 0)]


def test_layers_that_are_alike_are_one_kernel(monkeypatch):
    built = []
    build = KernelBuilder.build

    def counted(self, grid, reason):
        built.append(self.base)
        return build(self, grid, reason)

    monkeypatch.setattr(KernelBuilder, "build", counted)

    def f(x, w, v):
        for _ in range(8):
            h = qnp.tanh(x @ w + v)
            e = qnp.exp(h - qnp.max(h, -1, keepdims=True))
            x = x + e / qnp.sum(e, -1, keepdims=True)
        return x

    # Of a size of its own: no other test has asked for these.
    x, w, v = np.ones((130, 131), np.float32), np.ones((131, 131), np.float32), np.ones(131, np.float32)
    text = quire.jit(f).lower(x, w, v).as_text()
    assert text.count("flow.dispatch") >= 16
    assert len(built) <= 4
