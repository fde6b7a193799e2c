"""The table of targets."""

import dataclasses

import numpy as np
import pytest

import quire
from quire.backends import targets
from quire.backends.targets import (
    TARGETS,
    VulkanFacts,
    cuda_target,
    get_target,
    register_target,
    vector_bytes,
    vulkan_target,
    vulkan_target_of,
)
from quire.ir.errors import PassError, UnsupportedError
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr
from quire.passes.base import Pass, PassContext, register_pass
from quire.tools import dumpir


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
    assert dataclasses.replace(cpu, pipeline="dce").fingerprint() != before
    monkeypatch.setattr(targets, "cpu_features", lambda: frozenset({"sse2"}))
    assert cpu.fingerprint() != before


@pytest.mark.parametrize(
    ("environment", "ours", "launchers", "expected"),
    [
        ({}, 8, 8, 8),
        ({"MPI_LOCALNRANKS": "2"}, 8, 8, 4),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "3"}, 8, 8, 2),
        ({"MPI_LOCALNRANKS": "4"}, 2, 2, 1),  # more processes than processors
        ({"MPI_LOCALNRANKS": "4"}, 2, 8, 2),  # bound: they are shared out
        ({"MPI_LOCALNRANKS": ""}, 8, 8, 8),
    ],
)
def test_processes_on_one_machine_share_its_processors(monkeypatch, environment, ours, launchers, expected):
    for name in targets._PROCESSES_HERE:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(
        targets.os, "sched_getaffinity", lambda pid: set(range(launchers if pid else ours)), raising=False
    )
    assert targets.available_cpus() == expected
    shared = dataclasses.replace(TARGETS["cpu"], workers=expected)
    assert f"{expected} workers" in shared.fingerprint()


def test_names():
    with pytest.raises(ValueError, match="unknown target 'tpu'; there are cpu, vulkan, cuda"):
        get_target("tpu")
    with pytest.raises(ValueError, match="'cpu' exists"):
        register_target(TARGETS["cpu"])
    mine = register_target(dataclasses.replace(TARGETS["cpu"], name="mine"))
    assert get_target("mine") is mine
    del TARGETS["mine"]


@register_pass
@dataclasses.dataclass(frozen=True)
class FirstResult(Pass):
    """Give the first equation's result for all of them, so that it shows in the numbers that the pass has run."""

    name = "first-result-of-tests"

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        j = program.jaxpr
        first = j.eqns[0].outputs[0]
        return ClosedJaxpr(Jaxpr(j.constvars, j.invars, [first for _ in j.outvars], j.eqns), program.consts)


def test_a_target_brings_its_own_pipeline(monkeypatch, capsys):
    pipeline = "inline,first-result-of-tests,dce"
    monkeypatch.setitem(TARGETS, "mine", dataclasses.replace(TARGETS["vmvx"], name="mine", pipeline=pipeline))
    assert dumpir.main(["--show-pipeline", "--target", "mine"]) == 0
    assert capsys.readouterr().out.strip() == pipeline
    x = np.arange(3, dtype=np.float32)
    lowered = quire.compile(lambda x: -x * 2).trace(x).lower(backend="mine")
    assert "mul" in lowered.as_text("jaxpr") and "mul" not in lowered.as_text("optimized")
    assert "stablehlo.multiply" not in lowered.program().module.text()


def test_calls_go_through_the_pipeline_of_the_devices_target(monkeypatch):
    def f(x):
        return -x * 2

    x, cpu = np.arange(3, dtype=np.float32), TARGETS["cpu"]
    np.testing.assert_array_equal(quire.compile(f)(x), -x * 2)
    # Another key in the persistent cache, too.
    monkeypatch.setitem(TARGETS, "cpu", dataclasses.replace(cpu, pipeline="first-result-of-tests," + cpu.pipeline))
    np.testing.assert_array_equal(quire.compile(lambda x: f(x))(x), -x)
    monkeypatch.setitem(TARGETS, "cpu", dataclasses.replace(cpu, pipeline="inline,no-such-pass"))
    with pytest.raises(PassError, match="no pass is named 'no-such-pass'"):
        quire.compile(lambda x: f(x))(x)


DEVICE = """name: Some GPU
features: shaderInt8=yes shaderFloat16={half} shaderIntegerDotProduct=no subgroupSizeControl=yes
subgroup: size={lanes} operations=0x000000bf minSubgroupSize=8 maxSubgroupSize=32
"""


def test_vulkan_targets_have_the_devices_subgroups(monkeypatch):
    def target(lanes, half="yes"):
        return vulkan_target_of(VulkanFacts.of(DEVICE.format(lanes=lanes, half=half)))

    monkeypatch.delenv("QUIRE_VULKAN_TARGET", raising=False)
    assert VulkanFacts.of(DEVICE.format(lanes=8, half="no")) == VulkanFacts(
        "Some GPU", 8, frozenset({"shaderInt8", "subgroupSizeControl"})
    )
    assert target(32) == get_target("vulkan") and target(32).device_targets is None
    eight, sixteen = target(8), target(16, "no")
    assert "subgroup_size_choices = [8]" in eight.device_targets and "fp32|fp16|" in eight.device_targets
    assert "subgroup_size_choices = [16]" in sixteen.device_targets and "fp16" not in sixteen.device_targets
    assert len({t.fingerprint() for t in (target(32), eight, sixteen, target(16))}) == 4
    monkeypatch.setenv("QUIRE_VULKAN_TARGET", "valhall4")
    assert target(16).flags == vulkan_target("valhall4").flags and target(16).device_targets is None
    with pytest.raises(UnsupportedError) as caught:
        target(64)
    assert str(caught.value) == (
        "QUIRE_VULKAN_TARGET=valhall4: its programs need subgroups of 16 lanes, and Some GPU has 64: sums, maxima and products "
        "would be wrong. Unset the variable, and programs are compiled for the device itself, or name one of rdna2, rdna3, "
        "rdna4, adreno, vp_android_baseline_2022"
    )
