"""Placement: device_put, default_device, arrays of several devices."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import quire
import quire.numpy as qnp


def test_device_put_and_get():
    tree = {"a": np.arange(3), "b": [1.0, qnp.ones(2)]}
    put = quire.device_put(tree)
    assert put["a"].dtype == np.int32
    assert put["a"].devices() == {quire.devices()[0]}
    assert quire.device_put(put["a"]) is put["a"]
    got = quire.device_get(put)
    assert type(got["a"]) is np.ndarray
    np.testing.assert_array_equal(got["a"], [0, 1, 2])
    assert quire.block_until_ready(put) is put


def test_device_put_copies_numpy_memory():
    host = np.arange(3.0, dtype=np.float32)
    x = quire.device_put(host)
    host[0] = 7
    assert x[0] == 0


def test_wrong_devices_are_errors():
    with pytest.raises(TypeError, match=r"a quire.Device or the name of a platform .* got 3"):
        quire.device_put(1.0, 3)
    with pytest.raises(RuntimeError, match="no tpu device: quire has none"):
        quire.device_put(1.0, "tpu")
    with pytest.raises(ValueError, match="a device or a backend, not both"):
        quire.compile(lambda x: x, device=quire.devices()[0], backend="cpu")


SCRIPT = """
import numpy as np, quire, quire.numpy as qnp
assert quire.device_count() == 4 and len(quire.local_devices()) == 4
d = quire.devices()
x = quire.device_put(np.arange(3.0), d[2])
assert x.devices() == {d[2]}, x.devices()
f = quire.compile(lambda x: x * 2)
y = f(x)
assert y.devices() == {d[2]}
assert (x + 1).devices() == {d[2]}
try:
    quire.compile(lambda x, y: x + y)(x, quire.device_put(np.arange(3.0), d[1]))
except ValueError as error:
    assert "argument x of <lambda> with shape float32[3] and with device ids [2]" in str(error) and "quire.device_put" in str(error), error
else:
    raise AssertionError("no error")
with quire.default_device(d[3]):
    assert quire.device_put(1.0).devices() == {d[3]}
    assert f(1.0).devices() == {d[3]}
assert f(1.0).devices() == {d[0]}
assert quire.compile(lambda x: x, device=d[1])(1.0).devices() == {d[1]}
print("fine")
"""


def test_several_cpu_devices():
    environment = {**os.environ, "QUIRE_NUM_CPU_DEVICES": "4"}
    out = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True)
    assert out.stdout.strip() == "fine", out.stderr
