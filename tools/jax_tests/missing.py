"""What stands for a private name of JAX that quire does not have: it can be imported, and using it fails by its name."""

from __future__ import annotations

import functools
import types
from typing import Any, NoReturn

#: Whether a test is running: before that, what a test file does with a private name while it is imported is let pass.
running = [False]


class InternalsError(AttributeError):
    """A test used a private name of JAX that quire does not have."""


class AbsentError(AttributeError):
    """A test used a public name of JAX that quire does not have."""


class Missing:
    """A name of JAX that quire does not have."""

    def __init__(self, name: str, error: type[AttributeError] = InternalsError) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_error", error)

    def __repr__(self) -> str:
        return f"<{self._name}: not in quire>"

    def _fail(self) -> NoReturn:
        raise self._error(f"{self._name}: quire has no such name")

    def __getattr__(self, name: str) -> Any:
        if name in ("__name__", "__qualname__") and not running[0]:
            return self._name.rpartition(".")[2]
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self._name}.{name}", self._error)

    def __setattr__(self, name: str, value: Any) -> None:
        if not running[0]:
            object.__setattr__(self, name, value)
            return
        self._fail()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if running[0]:
            self._fail()
        if len(args) == 1 and isinstance(args[0], types.FunctionType):  # it decorates a test

            @functools.wraps(args[0])
            def failing(*_: Any, **__: Any) -> Any:
                self._fail()

            return failing
        return Missing(f"{self._name}()", self._error)

    def __iter__(self) -> Any:
        if running[0]:
            self._fail()
        return iter((Missing(f"{self._name}[...]", self._error),))

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return ()

    def __instancecheck__(self, instance: Any) -> bool:
        self._fail()

    def __getitem__(self, index: Any) -> Any:
        if running[0]:
            self._fail()
        return Missing(f"{self._name}[...]", self._error)

    def __setitem__(self, index: Any, value: Any) -> None:
        if running[0]:
            self._fail()

    def __enter__(self) -> Any:
        self._fail()

    def __exit__(self, *error: Any) -> None:
        self._fail()

    def __or__(self, other: Any) -> Any:
        return other

    __ror__ = __or__
