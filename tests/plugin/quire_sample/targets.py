# quire_sample/targets.py
from quire.plugins import Target, get_target


def baseline_cpu() -> Target:
    """Programs for any x86-64 processor; this machine's runs them."""
    return get_target("cpu").derived("baseline-cpu", "--iree-llvmcpu-target-cpu=x86-64", vector_bytes=16)
