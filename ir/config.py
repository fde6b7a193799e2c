"""The options of a process: one immutable object, overridable for a block of code.

Environment variables set the defaults once, at import; `config.update` replaces the process's options; a context
manager overrides them for the current context only (contextvars: safe for threads and tasks).
"""

from __future__ import annotations

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


_override: ContextVar[Options | None] = ContextVar("quire_options", default=None)

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


# The options that a `with` block put in force here, or None: read on every call of a compiled function.
current_override = _override.get


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


class Config:
    """The process's configuration: read options as attributes, change them with `update`.

    Example: ``config.update("enable_x64", True)``; ``with config.override(enable_x64=True): ...``. JAX's names
    (``jax_enable_x64``) are accepted everywhere.
    """

    _base: Options
    # Whether debug_nans or debug_infs was on at any time: an eager operation looks at the options only then.
    checks_values: bool

    def __init__(self, base: Options) -> None:
        object.__setattr__(self, "_base", base)
        object.__setattr__(self, "checks_values", base.debug_nans or base.debug_infs)

    @property
    def options(self) -> Options:
        """The options in force in this context."""
        override = _override.get()
        return self._base if override is None else override

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

    def config_with_absl(self) -> None:
        """Nothing: options are not flags of absl. Programs written for JAX call it."""

    def parse_flags_with_absl(self) -> None:
        """Nothing: options are not flags of absl. Programs written for JAX call it."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"quire.config: write config.update({name!r}, {value!r})")

    def _changed(self, options: Options, changes: Mapping[str, Any]) -> Options:
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
        changed = replace(options, **clean)
        if changed.debug_nans or changed.debug_infs:
            object.__setattr__(self, "checks_values", True)
        return changed

    def update(self, name: str, value: Any) -> None:
        """Set an option for the whole process (and for the block, inside an override).

        Options of JAX that quire does not have are taken where they change nothing of what is computed.

        Raises:
            AttributeError: there is no such option.
            ValueError: the option does not have this value.
        """
        if options_of_jax.is_option_of_jax(name):
            options_of_jax.set_value(name, value)
            return
        object.__setattr__(self, "_base", self._changed(self._base, {name: value}))
        override = _override.get()
        if override is not None:
            _override.set(self._changed(override, {name: value}))

    def restore(self, name: str, base: Any, block: Any) -> None:
        """Set an option to one value for the process and, inside an override, to another one for the block."""
        object.__setattr__(self, "_base", self._changed(self._base, {name: base}))
        override = _override.get()
        if override is not None:
            _override.set(self._changed(override, {name: block}))

    @contextmanager
    def override(self, **changes: Any) -> Generator[None]:
        """Options for a `with` block, in this context (thread, task) only."""
        token = _override.set(self._changed(self.options, changes))
        try:
            yield
        finally:
            _override.reset(token)


config = Config(_from_environment())
