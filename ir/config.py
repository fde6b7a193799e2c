"""The options of a process: one immutable object, overridable for a block of code.

Environment variables set the defaults once, at import; `config.update` replaces the process's options; a context
manager overrides them for the current context only (contextvars: safe for threads and tasks). What a block does not set is
the process's, whenever that changes.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any

from . import environment, options_of_jax


@dataclass(frozen=True)
class Options:
    """Every option of quire. Those marked `traced` change what a trace records, so they are part of cache keys."""

    enable_x64: bool = field(default=False, metadata={"traced": True})
    threefry_partitionable: bool = field(default=True, metadata={"traced": True})
    numpy_rank_promotion: str = field(default="allow", metadata={"traced": True})
    numpy_dtype_promotion: str = field(default="standard", metadata={"traced": True})
    # What becomes of 64-bit dtypes that are asked for without `enable_x64`: "warn" or "error".
    explicit_x64_dtypes: str = field(default="warn", metadata={"traced": True})
    # Whether integers that index outside an array are errors, where they are known while a function is traced.
    check_static_indices: bool = field(default=False, metadata={"traced": True})
    default_matmul_precision: str | None = field(default=None, metadata={"traced": True})
    default_prng_impl: str = field(default="threefry2x32", metadata={"traced": True})
    # Whether Gumbel numbers of no named mode resolve the upper tail (mode "high").
    high_dynamic_range_gumbel: bool = field(default=False, metadata={"traced": True})
    default_device: Any = field(default=None, metadata={"traced": True})
    # The mesh in force (`set_mesh`): with devices, or without.
    mesh: Any = field(default=None, metadata={"traced": True})
    # The mesh of a `with` block of its own, on which only `with_sharding_constraint` reads specs, as in JAX.
    block_mesh: Any = field(default=None, metadata={"traced": True})
    debug_nans: bool = field(default=False, metadata={"traced": True})
    debug_infs: bool = field(default=False, metadata={"traced": True})
    disable_jit: bool = field(default=False, metadata={"traced": True})
    # The shapes of cotangents that rules of `custom_vjp` return are not compared with those of the arguments.
    disable_bwd_checks: bool = field(default=False, metadata={"traced": True})
    # Compiled functions raise where they would be traced, or would run.
    no_tracing: bool = False
    no_execution: bool = False
    debug_key_reuse: bool = field(default=False, metadata={"traced": True})
    # Values of `make_user_context` that differ from their defaults.
    user_context: tuple[Any, ...] = field(default=(), metadata={"traced": True})
    # The default platform ("cpu", "cuda", "vulkan"); None: QUIRE_PLATFORM, or what is found.
    platform: str | None = None
    # How many devices the CPU is to be; None: QUIRE_NUM_CPU_DEVICES, or 1.
    num_cpu_devices: int | None = None
    # "threads": programs over several devices run as ranks that are threads; "threads:2": as two ranks.
    spmd: str | None = field(default=None, metadata={"traced": True})
    check_tracer_leaks: bool = False
    verify_each: bool = False
    # Each newly compiled program is compared with the reference backend at its first call.
    check: bool = False
    traceback_filtering: bool = True
    dump_to: str | None = None
    log_compiles: bool = False
    explain_cache_misses: bool = False
    # A line on the terminal while a program is being compiled for more than two seconds.
    compile_progress: bool = True
    # Python's `assert` of a traced value is a check of the program (`compile(checks=...)`).
    traced_asserts: bool = field(default=False, metadata={"traced": True})
    # Set by `quire.profiler` while it records: calls then take the way on which they are timed.
    profiling: bool = False

    def __post_init__(self) -> None:
        key = tuple(getattr(self, f.name) for f in fields(self) if f.metadata.get("traced"))
        object.__setattr__(self, "trace_key", key)

    # The values of the traced options: part of every signature under which a trace or a program is cached.
    trace_key: tuple[Any, ...] = field(init=False, repr=False, compare=False, default=())


def _from_environment() -> Options:
    return Options(
        enable_x64=environment.ENABLE_X64.is_on(False),
        threefry_partitionable=environment.THREEFRY_PARTITIONABLE.is_on(True),
        numpy_rank_promotion=environment.NUMPY_RANK_PROMOTION.text() or "allow",
        numpy_dtype_promotion=environment.NUMPY_DTYPE_PROMOTION.text() or "standard",
        spmd=environment.SPMD.text(),
        debug_nans=environment.DEBUG_NANS.is_on(False),
        debug_infs=environment.DEBUG_INFS.is_on(False),
        debug_key_reuse=environment.DEBUG_KEY_REUSE.is_on(False),
        check_tracer_leaks=environment.CHECK_TRACER_LEAKS.is_on(False),
        disable_jit=environment.DISABLE_JIT.is_on(False),
        verify_each=environment.VERIFY_EACH.is_on(False),
        check=environment.CHECK.is_on(False),
        traceback_filtering=environment.TRACEBACK_FILTERING.is_on(True),
        dump_to=environment.DUMP_TO.text(),
        log_compiles=environment.LOG_COMPILES.is_on(False),
        explain_cache_misses=environment.EXPLAIN_CACHE_MISSES.is_on(False),
        compile_progress=environment.COMPILE_PROGRESS.is_on(True),
    )


class Block:
    """What the `with` blocks around set, and the options that hold there: those of the process but for that."""

    __slots__ = ("__weakref__", "changes", "options")

    def __init__(self, base: Options, changes: Mapping[str, Any]) -> None:
        self.changes = changes
        self.options = replace(base, **changes)


_block: ContextVar[Block | None] = ContextVar("quire_options", default=None)
_lock = threading.RLock()

_CHOICES: Mapping[str, tuple[str | None, ...]] = {
    "numpy_rank_promotion": ("allow", "warn", "raise"),
    "numpy_dtype_promotion": ("standard", "strict"),
    "explicit_x64_dtypes": ("warn", "error", "allow"),
    "default_prng_impl": ("threefry2x32", "rbg", "unsafe_rbg"),
    "default_matmul_precision": (
        None,
        "default",
        "fastest",
        "bfloat16",
        "high",
        "bfloat16_3x",
        "tensorfloat32",
        "highest",
        "float32",
    ),
}


# The `with` blocks around, or None: read on every call of a compiled function.
current_block = _block.get


def _option_name(name: str) -> str:
    """Accept JAX's names: `jax_enable_x64` is `enable_x64`."""
    short = options_of_jax.OTHER_NAMES.get(name) or name.removeprefix("jax_")
    if short not in _NAMES:
        import difflib

        near = difflib.get_close_matches(short, sorted(_NAMES), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; the options are {', '.join(sorted(_NAMES))}"
        raise AttributeError(f"quire.config has no option {name!r}{hint}")
    return short


_NAMES = frozenset(f.name for f in fields(Options) if f.name != "trace_key")


def option_names() -> list[str]:
    """The names of all options."""
    return sorted(_NAMES)


class Config:
    """The process's configuration: read options as attributes, change them with `update`.

    Example: ``config.update("enable_x64", True)``; ``with config.override(enable_x64=True): ...``. JAX's names
    (``jax_enable_x64``) are accepted everywhere.
    """

    _base: Options
    # Those of all threads, which `update` tells of the process's new options.
    _blocks: weakref.WeakSet[Block]
    # Whether debug_nans or debug_infs was on at any time: an eager operation looks at the options only then.
    checks_values: bool

    def __init__(self, base: Options) -> None:
        object.__setattr__(self, "_base", base)
        object.__setattr__(self, "checks_values", base.debug_nans or base.debug_infs)
        object.__setattr__(self, "_blocks", weakref.WeakSet())

    @property
    def options(self) -> Options:
        """The options in force in this context."""
        block = _block.get()
        return self._base if block is None else block.options

    def __getattr__(self, name: str) -> Any:
        if options_of_jax.is_option_of_jax(name):
            return options_of_jax.value(name)
        return getattr(self.options, _option_name(name))

    def read(self, name: str) -> Any:
        """An option's value, by name; those that a block may change too (`jax.config.read` refuses these)."""
        return getattr(self, name)

    @property
    def values(self) -> dict[str, Any]:
        """All options by name, under JAX's names where JAX has them."""
        own = {f"jax_{n}": getattr(self.options, n) for n in sorted(_NAMES)}
        names = (*options_of_jax.WITHOUT_EFFECT, *options_of_jax.FIXED)
        return {**own, **{n: options_of_jax.value(n) for n in names}}

    @property
    def x64_enabled(self) -> bool:
        """Whether 64-bit dtypes are enabled here: the option `enable_x64`, by JAX's other name."""
        return self.options.enable_x64

    def config_with_absl(self) -> None:
        """Nothing: options are not flags of absl. Programs written for JAX call it."""

    def parse_flags_with_absl(self) -> None:
        """Nothing: options are not flags of absl. Programs written for JAX call it."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"quire.config: write config.update({name!r}, {value!r})")

    def _checked(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Options by their own names, with values that they may have."""
        clean: dict[str, Any] = {}
        for name, value in changes.items():
            if options_of_jax.is_option_of_jax(name):  # it changes nothing, here neither
                options_of_jax.check_value(name, value)
                continue
            short = _option_name(name)
            allowed = _CHOICES.get(short)
            if allowed is not None and isinstance(value, Enum):  # of JAX's own: `ExplicitX64Mode.ERROR`
                value = value.name.lower()
            if allowed is not None and value not in allowed:
                raise ValueError(f"quire.config.{short}: got {value!r}, expected one of {', '.join(map(str, allowed))}")
            clean[short] = value
        if clean.get("debug_nans") or clean.get("debug_infs"):
            object.__setattr__(self, "checks_values", True)
        return clean

    def _set_base(self, changes: Mapping[str, Any]) -> None:
        with _lock:
            object.__setattr__(self, "_base", replace(self._base, **changes))
            for block in self._blocks:
                block.options = replace(self._base, **block.changes)

    def _set_block(self, changes: Mapping[str, Any]) -> Any:
        with _lock:
            block = Block(self._base, changes)
            self._blocks.add(block)
        return _block.set(block)

    def update(self, name: str, value: Any) -> None:
        """Set an option for the whole process, but for blocks that set it themselves.

        Options of JAX that quire does not have are taken where they change nothing of what is computed.

        Raises:
            AttributeError: there is no such option.
            ValueError: the option does not have this value.
        """
        if options_of_jax.is_option_of_jax(name):
            options_of_jax.set_value(name, value)
            return
        self._set_base(self._checked({name: value}))

    def of_process(self, name: str) -> Any:
        """The value that an option has outside all blocks."""
        return getattr(self._base, _option_name(name))

    def of_block(self, name: str, default: Any = None) -> Any:
        """The value that the blocks around gave an option, or the default where they gave none."""
        block = _block.get()
        return default if block is None else block.changes.get(_option_name(name), default)

    def set_here(self, **changes: Any) -> None:
        """Set options for this context alone, until the innermost `with` block around ends."""
        block = _block.get()
        self._set_block({**({} if block is None else block.changes), **self._checked(changes)})

    def unset_here(self, name: str) -> None:
        """Let an option be the process's again in this context, until the innermost `with` block around ends."""
        block = _block.get()
        if block is not None:
            rest = {n: v for n, v in block.changes.items() if n != _option_name(name)}
            _ = self._set_block(rest) if rest else _block.set(None)

    @contextmanager
    def override(self, **changes: Any) -> Generator[None]:
        """Options for a `with` block, in this context (thread, task) only."""
        block = _block.get()
        token = self._set_block({**({} if block is None else block.changes), **self._checked(changes)})
        try:
            yield
        finally:
            _block.reset(token)


config = Config(_from_environment())
