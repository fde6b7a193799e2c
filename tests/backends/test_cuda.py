"""The CUDA target: programs compile for sm_80 everywhere; they run where there is a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quire as qr
import quire.numpy as qnp
from quire.backends.iree.service import compile_service
from quire.backends.targets import cuda_target
from quire.compiling.building import compile_flags
from quire.compiling.lowering import lower
from quire.compiling.request import Request

X = np.ones((4, 8), np.float32)


def _every(x: Any) -> dict[str, Any]:
    return {
        "elementwise": qnp.tanh(x) * 2 + x,
        "reduction": qnp.sum(x, axis=0),
        "half": x.astype("float16") + 1,
        "integers": x.astype("int32") // 3,
        "gather": x[np.array([3, 0])],
        "set": x.at[1].set(0),
        "loop": qr.lax.fori_loop(0, 5, lambda _, y: y * 0.5 + 1, x),
    }


@pytest.mark.parametrize("gpu", ["sm_80", "sm_89"])
def test_programs_compile_to_a_module(gpu: str) -> None:
    target = cuda_target(gpu)
    jaxpr = qr.jit(_every).trace(X).jaxpr
    lowered = lower(Request(jaxpr, target, "every"))
    flags = compile_flags(target)
    assert f"--iree-cuda-target={gpu}" in flags
    output = compile_service().compile(lowered.module.bytecode(), flags, name="every", files=True)
    assert output.vmfb[4:8] == b"ZZZZ" or len(output.vmfb) > 1000
    assert any(b".target sm_" in code for code in output.files.values()), "no PTX among the target's files"


def test_the_stages_of_another_target_are_readable() -> None:
    lowered = qr.jit(lambda x: qnp.sin(x)).trace(X).lower(backend="cuda")
    assert "stablehlo." in lowered.as_text("stablehlo")
    assert ".visible .entry" in lowered.as_text("code")


def _device() -> Any | None:
    try:
        return qr.devices("cuda")[0]
    except (RuntimeError, ValueError, IndexError):
        return None


@pytest.mark.cuda
@pytest.mark.skipif(_device() is None, reason="no CUDA device")
def test_programs_run() -> None:
    got, expected = qr.compile(_every, backend="cuda")(X), qr.compile(_every)(X)
    for name, value in expected.items():
        np.testing.assert_allclose(np.asarray(got[name]), np.asarray(value), rtol=1e-4, err_msg=name)


def test_running_without_a_gpu_is_a_clear_error() -> None:
    if _device() is not None:
        pytest.skip("there is a CUDA device")
    with pytest.raises((RuntimeError, ValueError), match="cuda"):
        compiled: Callable[..., Any] = qr.compile(lambda x: x, backend="cuda")
        compiled(X)
