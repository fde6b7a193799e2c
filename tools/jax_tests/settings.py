"""JAX's private `config` module, over `quire.config`: settings with `.value`, each also a context manager."""

from __future__ import annotations

import contextlib
import enum
import os
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from quire.ir.config import config as quire_config

# Options of JAX that quire does not have: they are kept and have no effect.
_own: dict[str, Any] = {
    "jax_enable_checks": False,
    "jax_legacy_prng_key": "allow",
    "jax_traceback_filtering": "off",
    "jax_enable_custom_prng": False,
    "jax_softmax_custom_jvp": False,
    "jax_dynamic_shapes": False,
}
_KEPT = frozenset(_own)


def _is_quires(name: str) -> bool:
    if name in _KEPT:
        return False
    try:
        getattr(quire_config, name)
    except AttributeError:
        return False
    return True


def _read(name: str) -> Any:
    if _is_quires(name):
        return getattr(quire_config, name)
    if name in _own:
        return _own[name]
    raise AttributeError(f"Unrecognized config option: {name}")


def update(name: str, value: Any) -> None:
    """Set an option for the process."""
    if _is_quires(name):
        quire_config.update(name, value)
    else:
        _own[name] = value


class Setting:
    """One option: its value, and a context manager that changes it for a block."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def value(self) -> Any:
        """The value in force."""
        value: Any = _own.get(self._name) if not _is_quires(self._name) else _read(self._name)
        return ExplicitX64Mode[value.upper()] if self._name == "explicit_x64_dtypes" else value

    def get_global(self) -> Any:
        """The value outside all blocks."""
        return quire_config.of_process(self._name) if _is_quires(self._name) else _own.get(self._name)

    def set_global(self, value: Any) -> None:
        """Set the option for the process."""
        update(self._name, value)

    def __call__(self, new: Any = True) -> contextlib.AbstractContextManager[None]:
        if _is_quires(self._name):
            return quire_config.override(**{self._name: new})
        return self._kept(new)

    @contextlib.contextmanager
    def _kept(self, new: Any) -> Generator[None]:
        old = _own.get(self._name)
        _own[self._name] = new
        try:
            yield
        finally:
            _own[self._name] = old


class _Settings(Mapping[str, Setting]):
    """Every option by its name."""

    def __getitem__(self, name: str) -> Setting:
        return Setting(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_own)

    def __len__(self) -> int:
        return len(_own)


config_states = _Settings()


def flag(name: str, default: Any, *args: Any, **kwargs: Any) -> Setting:
    """A flag of the tests' own, which the environment may set by its name in capitals."""
    text = os.environ.get(name.upper())
    _own.setdefault(name, default if text is None else type(default)(text))
    return Setting(name)


string_flag = int_flag = bool_flag = float_flag = enum_flag = flag


def bool_env(name: str, default: bool) -> bool:
    """A variable of the environment that is on or off."""
    return os.environ.get(name, str(default)).lower() in ("1", "true", "yes", "on")


class Config:
    """`jax.config` as the tests use it: quire's options, JAX's others, and the flags of absl."""

    @property
    def values(self) -> dict[str, Any]:
        """The options that are kept here."""
        return dict(_own)

    def parse_flags_with_absl(self) -> None:
        """Nothing: the runner's own flags are its own."""

    config_with_absl = parse_flags_with_absl
    update = staticmethod(update)
    _read = staticmethod(_read)

    def read(self, name: str) -> Any:
        """The value of an option."""
        return _read(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _read(name)


config = Config()
parse_flags_with_absl = config.parse_flags_with_absl


class NumpyDtypePromotion(enum.StrEnum):
    """How dtypes of operands are promoted."""

    STANDARD = "standard"
    STRICT = "strict"


class ExplicitX64Mode(enum.Enum):
    """What becomes of 64-bit dtypes that are asked for without x64."""

    WARN = 1
    ERROR = 2
    ALLOW = 3


class EffortLevel(enum.Enum):
    """How much XLA optimises."""

    UNKNOWN = 0
    O0 = 9
    O1 = 19
    O2 = 29
    O3 = 39


def __getattr__(name: str) -> Any:
    if name.startswith("__") or name[0].isupper():
        raise AttributeError(name)
    if _is_quires(name):
        return Setting(name)
    return Setting(f"jax_{name}")
