"""`jax.experimental.hijax`: types and primitives of users' own that are traced as such.

quire traces arrays alone. The classes are here because flax derives from them; what is made of them refuses to be used.
"""

from __future__ import annotations

from typing import Any, NoReturn

from quire.extend.core import Primitive
from quire.interpreters.ad import Zero as Zero
from quire.interpreters.ad import instantiate_zeros as instantiate_zeros
from quire.interpreters.ad import is_undefined_primal as is_undefined_primal

_MESSAGE = "quire traces arrays, and no values of users' own types (hijax)"


def _refuse(what: str) -> NoReturn:
    raise NotImplementedError(f"{what}: {_MESSAGE}; with flax use nnx.Variable without hijax=True")


class HiType:
    """The base of types of users' own."""


class MutableHiType(HiType):
    """The base of mutable types of users' own."""


class AvalQDD:
    """A type and the state of its value. Making one raises NotImplementedError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("jax.experimental.hijax.AvalQDD")


class AvalMutableQDD(AvalQDD):
    """A type and its value's state that changes."""


class HiPrimitive(Primitive):
    """The base of primitives on such values. Binding one raises NotImplementedError."""

    def bind(self, *args: Any, **params: Any) -> Any:
        """Refuse.

        Raises:
            NotImplementedError: always.
        """
        _refuse(f"primitive {self.name}")


class _Effects:
    """The effects that loops may have."""

    def __init__(self) -> None:
        self.types: list[type] = []

    def add_type(self, effect: type) -> None:
        """Allow an effect in loops."""
        self.types.append(effect)


control_flow_allowed_effects = _Effects()
_types: dict[type, Any] = {}


def register_hitype(cls: type, typeof: Any) -> None:
    """Note the type of a class's values. They may be made, and are refused where they are traced."""
    _types[cls] = typeof


class aval_property:  # noqa: N801 - JAX's name
    """A property that a type gives its values."""

    def __init__(self, fget: Any) -> None:
        self.fget = fget


class aval_method:  # noqa: N801 - JAX's name
    """A method that a type gives its values."""

    def __init__(self, fun: Any) -> None:
        self.fun = fun
