"""The environment variables of quire: each is declared here, read by its declaration, and listed in docs/environment.md.

What a variable sets is decided where it is used, when it is used; an empty variable is as good as none.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

_OFF = ("0", "false", "off", "no")
VARIABLES: dict[str, Variable] = {}
"""All variables by name."""


@dataclass(frozen=True)
class Variable:
    """An environment variable.

    Attributes:
        name: with its prefix, QUIRE_.
        example: a value, other than what holds without the variable.
        meaning: what that value does, as a table says it.
        option: the option of `quire.config` of which it is the first value.
    """

    name: str
    example: str
    meaning: str
    option: str = ""

    def __post_init__(self) -> None:
        VARIABLES[self.name] = self

    def text(self) -> str | None:
        """The value; None where the variable is not set, or is empty."""
        return os.environ.get(self.name) or None

    def is_on(self, default: bool) -> bool:
        """Whether the variable says so; 0, false, off and no say that it is not."""
        text = self.text()
        return default if text is None else says_on(text)


def says_on(text: str) -> bool:
    """Whether a switch of this value is on."""
    return text.strip().lower() not in _OFF


def of_jax(option: str) -> str | None:
    """The value of JAX's variable for an option, which programs that import jax are run with; None where it is not set."""
    return os.environ.get(f"JAX_{option.upper()}") or None


# -- the first values of options

ENABLE_X64 = Variable("QUIRE_ENABLE_X64", "1", "64-bit dtypes", "enable_x64")
THREEFRY_PARTITIONABLE = Variable(
    "QUIRE_THREEFRY_PARTITIONABLE", "0", "random bits by JAX's older scheme", "threefry_partitionable"
)
NUMPY_RANK_PROMOTION = Variable(
    "QUIRE_NUMPY_RANK_PROMOTION", "raise", "operands of different ranks are errors, or `warn`", "numpy_rank_promotion"
)
NUMPY_DTYPE_PROMOTION = Variable(
    "QUIRE_NUMPY_DTYPE_PROMOTION", "strict", "operands of different dtypes are errors", "numpy_dtype_promotion"
)
DEBUG_NANS = Variable("QUIRE_DEBUG_NANS", "1", "the first NaN that is computed is an error", "debug_nans")
DEBUG_INFS = Variable("QUIRE_DEBUG_INFS", "1", "the first infinity that is computed is an error", "debug_infs")
DEBUG_KEY_REUSE = Variable(
    "QUIRE_DEBUG_KEY_REUSE", "1", "a random key that is used twice is an error", "debug_key_reuse"
)
CHECK_TRACER_LEAKS = Variable(
    "QUIRE_CHECK_TRACER_LEAKS", "1", "a traced value that outlives its trace is an error", "check_tracer_leaks"
)
DISABLE_JIT = Variable(
    "QUIRE_DISABLE_JIT", "1", "compiled functions run as Python, operation by operation", "disable_jit"
)
VERIFY_EACH = Variable("QUIRE_VERIFY_EACH", "1", "programs are verified after every pass", "verify_each")
CHECK = Variable(
    "QUIRE_CHECK", "1",
    "each newly compiled program is compared with NumPy at its first call ([debugging](debugging.md))", "check",
)  # fmt: skip
TRACEBACK_FILTERING = Variable(
    "QUIRE_TRACEBACK_FILTERING", "0", "tracebacks show quire's own frames too", "traceback_filtering"
)
DUMP_TO = Variable("QUIRE_DUMP_TO", "DIR", "every stage of every compiled function is written to the folder", "dump_to")
LOG_COMPILES = Variable("QUIRE_LOG_COMPILES", "1", "each trace and compile is told", "log_compiles")
EXPLAIN_CACHE_MISSES = Variable(
    "QUIRE_EXPLAIN_CACHE_MISSES", "1", "why a function is traced again is told", "explain_cache_misses"
)
COMPILE_PROGRESS = Variable(
    "QUIRE_COMPILE_PROGRESS", "0", "no line on standard error tells of compiles that take over two seconds", "compile_progress"
)  # fmt: skip

# -- compiling

CACHE = Variable("QUIRE_CACHE", "0", "programs are not kept on the disk")
CACHE_DIR = Variable("QUIRE_CACHE_DIR", "DIR", "the folder for compiled programs instead of the user's cache folder")
CACHE_SIZE = Variable("QUIRE_CACHE_SIZE", "500MB", "how much the programs on the disk may take instead of 2 GiB")
EARLY_COMPILER = Variable(
    "QUIRE_EARLY_COMPILER", "0",
    "the compiler's process starts with the first compile; otherwise, where no program is cached yet, with the import",
)  # fmt: skip
COMPILE_WORKERS = Variable("QUIRE_COMPILE_WORKERS", "1", "so many programs are compiled at once, at most")
COMPILE_TIMEOUT = Variable("QUIRE_COMPILE_TIMEOUT", "60", "seconds that a compile may take")
REPRODUCER_DIR = Variable("QUIRE_REPRODUCER_DIR", "DIR", "where compiles that fail leave what shows the failure")

# -- devices

PLATFORM = Variable(
    "QUIRE_PLATFORM", "vulkan", "the default platform: `cpu`, `cuda` or `vulkan`, or a target that runs on one"
)
NUM_CPU_DEVICES = Variable("QUIRE_NUM_CPU_DEVICES", "8", "that many CPU devices")
SPMD = Variable(
    "QUIRE_SPMD", "threads",
    "programs over several devices run as under MPI, their ranks being threads of one process; `threads:2`: two ranks",
    "spmd",
)  # fmt: skip
POOL_SIZE = Variable(
    "QUIRE_POOL_SIZE", "2GiB", "so much memory is kept for further results instead of a quarter of the machine's"
)
VULKAN_TARGET = Variable(
    "QUIRE_VULKAN_TARGET", "rdna3", "compile for a family of GPUs instead of the Vulkan device that is there"
)
CPU_PIPELINE = Variable(
    "QUIRE_CPU_PIPELINE", "inline,simplify,dce", "the passes that programs for the CPU go through instead of its own"
)
CUDA_TARGET = Variable("QUIRE_CUDA_TARGET", "sm_86", "compile for this GPU instead of sm_80")
ROCM_TARGET = Variable("QUIRE_ROCM_TARGET", "gfx90a", "compile for this GPU instead of gfx942")
AS_JAX_REPORT = Variable(
    "QUIRE_AS_JAX_REPORT", "1", "`quire.as_jax` lists on stderr which names of jax were asked for and are absent"
)
