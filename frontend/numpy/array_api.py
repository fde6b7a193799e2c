"""What the Array API standard asks a namespace about itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.config import config

_WIDE = (dtypes.int64, dtypes.uint64, dtypes.float64, dtypes.complex128)
_KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


class NamespaceInfo:
    """The inspection interface of the Array API standard, 2024.12.

    >>> quire.numpy.__array_namespace_info__().default_dtypes()["integral"]
    dtype('int32')
    """

    def capabilities(self) -> dict[str, Any]:
        """What the namespace can do: no boolean indexing and no data-dependent shapes, because programs are compiled."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> None:
        """The device of new arrays: None, `config.default_device` or the first CPU."""
        return None

    def devices(self) -> list[Any]:
        """Where arrays can be."""
        from quire.runtime.devices import devices

        return [None, *devices()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """The dtype of each kind that functions take when none is given."""
        integer = dtypes.canonicalize(dtypes.int64)
        return {
            "real floating": dtypes.canonicalize(dtypes.float64),
            "complex floating": dtypes.canonicalize(dtypes.complex128),
            "integral": integer,
            "indexing": integer,
        }

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, np.dtype[Any]]:
        """The standard's dtypes that are available, all or those of a kind: "bool", "integral", "real floating", ...

        Raises ValueError for an unknown kind.
        """
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        for k in kinds:
            if k not in _KINDS:
                raise ValueError(
                    f"__array_namespace_info__().dtypes: unknown kind {k!r}: expected one of {', '.join(_KINDS)}"
                )
        names = [n for k in kinds for n in _KINDS[k]]
        return {n: np.dtype(n) for n in names if config.options.enable_x64 or np.dtype(n) not in _WIDE}


def __array_namespace_info__() -> NamespaceInfo:
    """The dtypes, devices and abilities of `quire.numpy`, as the Array API standard asks for them.

    >>> quire.numpy.__array_namespace_info__().capabilities()["data-dependent shapes"]
    False
    """
    return NamespaceInfo()
