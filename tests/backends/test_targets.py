"""The table of targets."""

import dataclasses

import pytest

from quire.backends import targets
from quire.backends.targets import TARGETS, cuda_target, get_target, register_target, vector_bytes, vulkan_target


def test_the_table():
    assert set(TARGETS) >= {"cpu", "vulkan", "cuda", "rocm", "metal", "vmvx"}
    for name, target in TARGETS.items():
        assert target.name == name
        assert f"--iree-hal-target-backends={target.backend}" in target.flags
        assert "--iree-input-demote-f64-to-f32=false" in target.flags
        assert target.bytes_per_second > 0 and target.flops_per_second > 0
    assert TARGETS["cpu"].kernels and TARGETS["cpu"].drivers == ("local-sync", "local-task")
    assert not TARGETS["metal"].drivers and "64-bit" in TARGETS["metal"].unsupported["float64"]


def test_gpus_are_always_named():
    assert "--iree-vulkan-target=ampere" in vulkan_target().flags
    assert "--iree-cuda-target=sm_80" in cuda_target().flags
    assert "--iree-vulkan-target=rdna3" in vulkan_target("rdna3").flags


def test_gpus_from_the_environment(monkeypatch):
    monkeypatch.setenv("QUIRE_VULKAN_TARGET", "turing")
    assert "--iree-vulkan-target=turing" in vulkan_target().flags
    monkeypatch.setenv("QUIRE_CUDA_TARGET", "sm_90")  # would crash or fail in the compiler
    with pytest.raises(ValueError, match="QUIRE_CUDA_TARGET=sm_90: unknown GPU; IREE knows sm_60, .*sm_89"):
        cuda_target()
    with pytest.raises(ValueError, match="unknown Vulkan GPU 'h100'"):
        vulkan_target("h100")


def test_vector_width():
    assert vector_bytes(frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2"})) == 64
    assert vector_bytes(frozenset({"avx2", "fma"})) == 32
    assert vector_bytes(frozenset({"avx512f", "avx2"})) == 32
    assert vector_bytes(frozenset()) == 16
    assert TARGETS["cpu"].vector_bytes in (16, 32, 64)


def test_fingerprint_tells_processors_and_flags_apart(monkeypatch):
    cpu = get_target("cpu")
    before = cpu.fingerprint()
    assert cpu.with_flags("--x").fingerprint() != before
    monkeypatch.setattr(targets, "cpu_features", lambda: frozenset({"sse2"}))
    assert cpu.fingerprint() != before


def test_names():
    with pytest.raises(ValueError, match="unknown target 'tpu'; there are cpu, vulkan, cuda"):
        get_target("tpu")
    with pytest.raises(ValueError, match="'cpu' exists"):
        register_target(TARGETS["cpu"])
    mine = register_target(dataclasses.replace(TARGETS["cpu"], name="mine"))
    assert get_target("mine") is mine
    del TARGETS["mine"]
