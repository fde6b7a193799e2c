"""Devices: platforms, counts, and the errors where something is missing."""

import pickle
import subprocess
import sys

import pytest

from quire.runtime.devices import default_platform, device_count, devices, local_devices


def run(script, **environment):
    import os

    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=100, env={**os.environ, **environment}
    )


def test_the_cpu(cpu):
    assert repr(cpu) == "CpuDevice(id=0)"
    assert (cpu.platform, cpu.id, cpu.process_index, cpu.is_host) == ("cpu", 0, 0, True)
    assert cpu.device_kind
    assert cpu.target.name == "cpu"
    assert cpu.hal("sync") is cpu.hal("sync") is not cpu.hal("task")
    assert devices("cpu") == local_devices(backend="cpu") == [cpu]
    assert local_devices(1, "cpu") == []
    assert device_count("cpu") == 1
    assert default_platform() in ("cpu", "cuda")


def test_memory_stats_grow_with_buffers(cpu):
    from quire.runtime.buffers import aligned_empty

    before = cpu.memory_stats()["total_bytes_allocated"]
    array = aligned_empty((3 << 20,), "uint8")
    stats = cpu.memory_stats()
    assert stats["total_bytes_allocated"] - before >= array.nbytes
    assert stats["peak_bytes_in_use"] >= stats["bytes_in_use"] >= array.nbytes
    del array
    cpu.trim()
    assert cpu.memory_stats()["bytes_in_use"] <= stats["bytes_in_use"] - (3 << 20)


def test_kept_memory_is_bounded():
    script = """
from quire.runtime.buffers import aligned_empty
from quire.runtime.devices import devices
for i in range(40):
    aligned_empty(((1 + i) << 18,), "u1")[::4096] = 1
print(devices("cpu")[0].memory_stats()["bytes_in_use"])
"""
    assert int(run(script, QUIRE_POOL_SIZE="20MiB").stdout) <= 20 << 20
    assert int(run(script).stdout) > 20 << 20
    assert "QUIRE_POOL_SIZE=big: expected a size" in run(script, QUIRE_POOL_SIZE="big").stderr


def test_a_device_is_pickled_by_name(cpu):
    assert pickle.loads(pickle.dumps(cpu)) is cpu


def test_eight_simulated_devices_are_one_in_iree():
    script = (
        "from quire.runtime.devices import devices\nd = devices('cpu')\nprint(len(d), d[7], d[0].hal() is d[7].hal())"
    )
    assert run(script, QUIRE_NUM_CPU_DEVICES="8").stdout == "8 CpuDevice(id=7) True\n"


def test_a_bad_number_of_devices():
    result = run("from quire.runtime.devices import devices\ndevices('cpu')", QUIRE_NUM_CPU_DEVICES="many")
    assert "ValueError: QUIRE_NUM_CPU_DEVICES=many: expected a number of devices, 1 or more" in result.stderr


def test_unknown_platform():
    with pytest.raises(RuntimeError, match="no tpu device: quire has none; there are cpu, vulkan, cuda"):
        devices("tpu")


def test_the_platform_from_the_environment():
    script = "from quire.runtime.devices import devices\nprint(devices())"
    assert run(script, QUIRE_PLATFORM="cpu").stdout == "[CpuDevice(id=0)]\n"
    assert "unknown platform 'abacus'" in run(script, QUIRE_PLATFORM="abacus").stderr


def test_missing_vulkan_tells_what_to_install():
    script = (
        "from quire.runtime.devices import devices\n"
        "try:\n    print(devices('vulkan'))\nexcept RuntimeError as e:\n    print(e)"
    )
    # the loader finds no driver
    result = run(script, VK_DRIVER_FILES="/nowhere.json", VK_ICD_FILENAMES="/nowhere.json")
    assert "apt install libvulkan1 mesa-vulkan-drivers" in result.stdout, result


def test_missing_cuda_tells_what_is_needed():
    try:
        found = devices("cuda")
    except RuntimeError as error:
        assert "an NVIDIA GPU with its driver (libcuda.so.1) is needed" in str(error)
    else:
        assert repr(found[0]) == "CudaDevice(id=0)"


@pytest.mark.vulkan
def test_vulkan(vulkan):
    assert repr(vulkan) == "VulkanDevice(id=0)"
    assert not vulkan.is_host and vulkan.device_kind


def test_exit_with_live_buffers_is_clean():
    # Buffers that outlive the device's allocator crashed the process.
    script = """
import numpy as np
from quire.runtime import buffers
from quire.runtime.devices import devices
device = devices("cpu")[0]
keep = [buffers.from_numpy(np.ones(n), device) for n in (1, 1 << 20)]
keep += [buffers.to_numpy(view, device) for view in keep] + [buffers.aligned_empty((9,), "f4")]
device.hal("task")
"""
    result = run(script)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
