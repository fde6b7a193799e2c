"""Types for annotations, as in `jax.typing`: `Array`, `ArrayLike`, `DTypeLike`."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np

from .arrays.array_type import Array


class SupportsDType(Protocol):
    """An object with a dtype."""

    @property
    def dtype(self) -> Any:
        """The dtype."""
        ...


#: What functions take as an array: an array, a NumPy array or a number. `isinstance` takes it, so NumPy's are not subscripted.
ArrayLike: TypeAlias = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex  # pyright: ignore[reportMissingTypeArgument]
#: What functions take as a dtype.
DTypeLike: TypeAlias = str | type[Any] | np.dtype[Any] | SupportsDType

__all__ = ["Array", "ArrayLike", "DTypeLike"]
