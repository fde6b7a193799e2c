"""Context managers that change one option for a block: ``with quire.enable_x64(True): ...``; `jax.enable_x64` and kin."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

from quire.ir import options_of_jax
from quire.ir.config import config
from quire.ir.tracing import compile_time

_MISSING: Any = object()


class _Unset:
    def __repr__(self) -> str:
        return "unset"


unset = _Unset()
"""What `get_local` gives of an option that nothing in this context sets."""


class OptionContext:
    """Changes one option of `quire.config` for a block, in this thread or task only; also a decorator of functions.

    Called with the new value; for an option that is on or off the value may be left out and is True. It is `jax`'s `State`
    too: the option's value in force, the process's and the one set here can be read and set.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> with quire.enable_x64(True):
        ...     qnp.ones(2).dtype
        dtype('float64')
        >>> quire.config.enable_x64
        False
    """

    def __init__(self, option: str, doc: str) -> None:
        self.option = option
        self.__name__ = self.__qualname__ = option
        self.__doc__ = doc

    def __repr__(self) -> str:
        return f"<context manager of quire.config.{self.option}>"

    def __bool__(self) -> bool:
        raise TypeError(f"quire.{self.option} is no value but a context manager: read quire.config.{self.option}")

    @property
    def name(self) -> str:
        """The option's name in JAX."""
        return options_of_jax.name_in_jax(self.option)

    @property
    def value(self) -> Any:
        """The value in force."""
        return getattr(config, self.option)

    def get_global(self) -> Any:
        """The value outside all blocks."""
        return config.of_process(self.option)

    def set_global(self, value: Any) -> None:
        """Set the option for the process, as `quire.config.update`. Raises ValueError for a value that it does not have."""
        config.update(self.option, value)

    def get_local(self) -> Any:
        """The value that was set in this context, by a block or `set_local`; `unset` where none was."""
        return config.of_block(self.option, unset)

    def set_local(self, value: Any) -> None:
        """Set the option in this context alone until the block around ends; `unset`: it is the process's again.

        Raises ValueError for a value that it does not have.
        """
        if value is unset:
            config.unset_here(self.option)
        else:
            config.set_here(**{self.option: value})

    def swap_local(self, value: Any) -> Any:
        """As `set_local`, and returns what `get_local` gave before. Raises ValueError for a value that it does not have."""
        before = self.get_local()
        self.set_local(value)
        return before

    def __call__(self, new_val: Any = _MISSING) -> contextlib.AbstractContextManager[None]:
        if new_val is _MISSING:
            if not isinstance(getattr(config, self.option), bool):
                raise TypeError(f"quire.{self.option}: give the option's new value for the block")
            new_val = True
        return _override(self.option, new_val)


@contextlib.contextmanager
def _override(option: str, value: Any) -> Generator[None]:
    with config.override(**{option: value}):
        yield


def disable_jit(disable: bool = True) -> contextlib.AbstractContextManager[None]:
    """For a block, run compiled functions and loops as Python, one operation after the other (`jax.disable_jit`).

    Values can be printed and stepped through with a debugger; `cond`, `scan`, `while_loop` call their functions
    directly.

    Example:
        >>> import quire
        >>> @quire.compile
        ... def f(x):
        ...     return "positive" and x * 2.0 if x > 0 else -x
        >>> with quire.disable_jit():
        ...     float(f(-3.0))
        3.0
    """
    return _override("disable_jit", bool(disable))


def checking_leaks() -> contextlib.AbstractContextManager[None]:
    """For a block, raise UnexpectedTracerError when a traced value outlives its trace (`jax.checking_leaks`).

    The error says where the value was made and what holds it. Each trace then looks through all objects: slow.

    Example:
        >>> import quire
        >>> kept = []
        >>> with quire.checking_leaks():
        ...     quire.make_jaxpr(lambda x: kept.append(x * 2) or x)(1.0)
        Traceback (most recent call last):
        ...
        quire.ir.errors.UnexpectedTracerError: 1 traced value(s) of compile of ... leaked:
        ...
    """
    return _override("check_tracer_leaks", True)


enable_x64 = OptionContext(
    "enable_x64",
    """For a block, let 64-bit dtypes be 64 bits wide (`jax.enable_x64`): ``with quire.enable_x64(True): ...``.

    Without it float64, int64, uint64 and complex128 mean the 32-bit types (64 bits for complex).
    """,
)
debug_nans = OptionContext(
    "debug_nans",
    """For a block, raise FloatingPointError where a NaN appears (`jax.debug_nans`): ``with quire.debug_nans(True): ...``.

    Operations outside `compile` are checked one by one. A compiled program whose result holds a NaN is run again on
    the reference backend, and the error names the equation that made the NaN, with the user's line.
    """,
)
debug_infs = OptionContext(
    "debug_infs",
    """For a block, raise FloatingPointError where an infinity appears (`jax.debug_infs`), as `debug_nans` for NaN.""",
)
no_tracing = OptionContext(
    "no_tracing",
    """For a block, raise RuntimeError where a compiled function would be traced (`jax.no_tracing`): all is to be warm.""",
)
no_execution = OptionContext(
    "no_execution",
    """For a block, raise RuntimeError where a compiled function would run (`jax.no_execution`).""",
)
debug_key_reuse = OptionContext(
    "debug_key_reuse",
    """For a block, raise KeyReuseError where a random key is used twice (`jax.debug_key_reuse`).""",
)
check_tracer_leaks = OptionContext(
    "check_tracer_leaks",
    """For a block, raise UnexpectedTracerError when a traced value outlives its trace; see `checking_leaks`.""",
)
enable_checks = OptionContext(
    "verify_each",
    """For a block, verify programs after each pass (`jax.enable_checks`): for finding mistakes of quire itself.""",
)
check_programs = OptionContext(
    "check",
    """For a block, run each newly compiled program once against the reference backend (``QUIRE_CHECK=1``).

    MiscompiledError names the function, the result and the line where they differ by more than rounding explains.
    """,
)
log_compiles = OptionContext(
    "log_compiles",
    """For a block, log each compilation as a warning of the logger ``quire`` (`jax.log_compiles`): why, how long.""",
)
explain_cache_misses = OptionContext(
    "explain_cache_misses",
    """For a block, log as a warning of the logger ``quire`` when a function is traced, and why (`jax.explain_cache_misses`).""",
)
numpy_rank_promotion = OptionContext(
    "numpy_rank_promotion",
    """For a block, what arrays of different ranks in one operation do: "allow", "warn", "raise" (`jax.numpy_rank_promotion`).

    Example:
        >>> import quire, quire.numpy as qnp
        >>> with quire.numpy_rank_promotion("raise"):
        ...     qnp.ones((2, 3)) + qnp.ones(3)
        Traceback (most recent call last):
        ...
        ValueError: quire.numpy.add: operands have different ranks, (2, 3), (3,), and ...: write the new dimensions, ... x[None, :]
    """,
)
numpy_dtype_promotion = OptionContext(
    "numpy_dtype_promotion",
    """For a block, "standard" or "strict" promotion of dtypes (`jax.numpy_dtype_promotion`): strict refuses to mix them.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> with quire.numpy_dtype_promotion("strict"):
        ...     qnp.ones(3) + qnp.arange(3)
        Traceback (most recent call last):
        ...
        quire.ir.errors.TypePromotionError: quire.numpy.add: dtypes ... have no implicit promotion ...
    """,
)
default_matmul_precision = OptionContext(
    "default_matmul_precision",
    """For a block, the precision of products that name none (`jax.default_matmul_precision`).

    Example:
        >>> import quire
        >>> with quire.default_matmul_precision("highest"):
        ...     quire.config.default_matmul_precision
        'highest'
    """,
)
default_prng_impl = OptionContext(
    "default_prng_impl",
    """For a block, the generator of new keys (`jax.default_prng_impl`).""",
)
threefry_partitionable = OptionContext(
    "threefry_partitionable",
    """For a block, whether random bits follow the partitionable scheme (`jax.threefry_partitionable`).""",
)


def ensure_compile_time_eval() -> contextlib.AbstractContextManager[None]:
    """For a block, compute at once, while a function is traced, instead of recording (`jax.ensure_compile_time_eval`).

    What is known is computed; an operation on a traced value is recorded by that value's trace.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> @quire.compile
        ... def f(x):
        ...     with quire.ensure_compile_time_eval():
        ...         n = int(qnp.arange(4).sum())
        ...     return x * n
        >>> float(f(2.0))
        12.0
    """
    return compile_time()


class UserContext:
    """A value of the user's that compiled functions depend on; made by `make_user_context`."""

    def __init__(self, default: Any) -> None:
        self.default = default

    @property
    def value(self) -> Any:
        """The value in force."""
        return dict(config.options.user_context).get(self, self.default)

    def get_global(self) -> Any:
        """The value outside all blocks."""
        return dict(config.of_process("user_context")).get(self, self.default)

    def set_global(self, value: Any) -> None:
        """Set the value outside all blocks. Raises TypeError where it is not hashable."""
        others = tuple((c, v) for c, v in config.of_process("user_context") if c is not self)
        config.update("user_context", (*others, (self, self._hashable(value))))

    def _hashable(self, value: Any) -> Any:
        try:
            hash(value)
        except TypeError:
            raise TypeError(f"quire.make_user_context: the value must be hashable, got {value!r}") from None
        return value

    def __call__(self, value: Any) -> contextlib.AbstractContextManager[None]:
        others = tuple((c, v) for c, v in config.options.user_context if c is not self)
        return config.override(user_context=(*others, (self, self._hashable(value))))


def make_user_context(default_value: Any = None) -> UserContext:
    """A context manager whose value is part of every trace's key (`jax.make_user_context`).

    ``with context(value): ...`` sets it for a block, ``context.value`` reads it. A compiled function that is called
    with another value is traced and compiled anew.

    Example:
        >>> import quire
        >>> scale = quire.make_user_context(1)
        >>> f = quire.compile(lambda x: x * scale.value)
        >>> with scale(3):
        ...     float(f(2.0))
        6.0
        >>> float(f(2.0))
        2.0
    """
    return UserContext(default_value)
