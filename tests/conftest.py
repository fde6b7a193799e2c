"""The suite runs with its own compile cache, so that it tests the compiler and not what an earlier run left."""

from __future__ import annotations

import gc
import os
import sys
import tempfile

import pytest

# Before quire is imported: the cache is private to the run unless a folder is named.
if "QUIRE_CACHE_DIR" not in os.environ:
    os.environ["QUIRE_CACHE_DIR"] = tempfile.mkdtemp(prefix="quire-test-cache-")

# NumPy's products are small here, and the processes of a run share the cores: threads that wait for each other take twenty times
# the products' own time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Tests compare what is written to standard error, and a busy machine makes any compile long.
os.environ.setdefault("QUIRE_COMPILE_PROGRESS", "0")

# The oracle's programs are small and run once: they need no optimiser, and the processes of a run share them. The emitters
# of fusions that are the default make LLVM work three times as long on programs of many equations.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
)
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="quire-test-oracle-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

# A process of the suite holds many jaxprs and programs: with Python's default thresholds it would go through all of
# them every few milliseconds.
gc.set_threshold(50_000, 20, 50)


def pytest_addoption(parser):
    parser.addoption(
        "--update", action="store_true", help="rewrite the expected texts of tests/ir_files and tests/error_texts"
    )


@pytest.fixture
def update(request):
    """Whether expected texts are to be rewritten."""
    return request.config.getoption("--update")


def pytest_collection_modifyitems(items):
    """Files whose tests use Vulkan come last, and the repository's, of which one is long, first.

    Once a process has a device of Mesa's software driver, two threads of IREE's wait for semaphores in it, which it does
    by asking for the time again and again: on two cores all that comes after takes twice as long.
    """
    vulkan = {item.path for item in items if item.get_closest_marker("vulkan")}
    items.sort(key=lambda item: (item.path in vulkan, "repository" not in item.path.parts))


@pytest.fixture(scope="module", autouse=True)
def forget():
    """Each module leaves no programs behind, of quire or of the oracle: they are gigabytes in the end."""
    yield
    for name in ("jax", "quire"):
        if name in sys.modules:
            sys.modules[name].clear_caches()
    gc.collect()
    gc.freeze()  # what is left stays: the next collection need not go through it


@pytest.fixture
def x64():
    """64-bit dtypes for one test."""
    from quire.ir.config import config

    with config.override(enable_x64=True):
        yield
