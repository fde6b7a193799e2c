"""Memory that cannot be had is one class of error, which says how much was asked for and where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.errors import OutOfMemoryError
from quire.ir.errors import size_text

# More than processors can address: no system promises it.
M = 1 << 23


def _huge() -> Any:
    return np.broadcast_to(np.float32(1), (M, M))


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "an array filled with a number": (lambda: qnp.zeros((M, M)), "Unable to allocate 256. TiB"),
    "a range": (lambda: qnp.arange(1 << 46), "Unable to allocate 256. TiB"),
    "an identity": (lambda: qnp.eye(M), "Unable to allocate"),
    "an eager operation": (lambda: qnp.outer(qnp.ones(M), qnp.ones(M)), "mul: Unable to allocate 256. TiB"),
    "an eager broadcast": (lambda: qnp.broadcast_to(qnp.ones(4), (1 << 44, 4)) + 1, "Unable to allocate 256. TiB"),
    "a copy of NumPy's": (lambda: qnp.asarray(_huge()), "float32[8388608, 8388608] of 256 TiB was asked for"),
    "device_put": (lambda: quire.device_put(_huge()), "Unable to allocate 256. TiB"),
    "an argument": (
        lambda: quire.jit(lambda x: x[0, 0])(_huge()),
        "float32[8388608, 8388608] of 256 TiB was asked for on",
    ),
    "a result": (
        lambda: quire.jit(lambda x: qnp.outer(x, x))(qnp.ones(M)),
        "float32[8388608, 8388608] of 256 TiB was asked for on CpuDevice(id=0)",
    ),
    "intermediate values": (
        lambda: quire.jit(lambda x: qnp.cumsum(qnp.outer(x, x), 0)[::4194304].sum())(qnp.ones(M)),
        "asked for 4 bytes for its results and ",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_one_class_with_the_size_and_the_line(name: str) -> None:
    f, text = CASES[name]
    with pytest.raises(OutOfMemoryError) as caught:
        f()
    message = str(caught.value)
    assert message.startswith("out of memory: ") and text in message, message
    assert "test_out_of_memory.py:" in message
    assert isinstance(caught.value, MemoryError) and isinstance(caught.value, RuntimeError)


def test_a_programs_name_and_what_takes_less_are_told() -> None:
    @quire.jit
    def energy(x: Any) -> Any:
        return qnp.cumsum(qnp.outer(x, x), 0)[::4194304].sum()

    with pytest.raises(
        OutOfMemoryError, match=r"the program 'energy', called \(at .*TiB for intermediate values.*lax.map"
    ):
        energy(qnp.ones(M))


def test_sizes() -> None:
    assert [size_text(n) for n in (0, 1023, 1024, 1536 << 20, 1 << 42, 1 << 52)] == [
        "0 bytes", "1023 bytes", "1 KiB", "1.5 GiB", "4 TiB", "4096 TiB",
    ]  # fmt: skip
