"""The making of sparse arrays of any form."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from .bcoo_array import BCOO
from .bcsr_array import BCSR
from .coo import COO
from .csr import CSC, CSR

_FORMS: MappingProxyType[str, Any] = MappingProxyType({"bcsr": BCSR, "bcoo": BCOO, "coo": COO, "csr": CSR, "csc": CSC})


def _form(sparse_format: str) -> Any:
    if sparse_format not in _FORMS:
        raise ValueError(f"sparse_format={sparse_format!r} not recognized; must be one of {list(_FORMS)}")
    return _FORMS[sparse_format]


def empty(
    shape: Sequence[int], dtype: Any = None, index_dtype: Any = "int32", sparse_format: str = "bcoo", **kwds: Any
) -> Any:
    """A sparse array of zeros.

    Args:
        shape: its shape.
        dtype: of the elements; float by default.
        index_dtype: of the indices.
        sparse_format: "bcoo", "bcsr", "coo", "csr" or "csc".
        kwds: of BCOO and BCSR: `nse`, the number of places that are kept, `n_batch` and `n_dense`.

    Raises ValueError for another form, or a shape that the form does not have.
    """
    return _form(sparse_format)._empty(shape, dtype=dtype, index_dtype=index_dtype, **kwds)


def eye(
    N: int, M: int | None = None, k: int = 0, dtype: Any = None, index_dtype: Any = "int32", sparse_format: str = "bcoo",
    **kwds: Any,
) -> Any:  # fmt: skip
    """Ones along a diagonal of an (N, M) matrix, the k-th above the main one. M is N by default.

    Args:
        N, M, k: the sizes and the diagonal.
        dtype: of the elements; float by default.
        index_dtype: of the indices.
        sparse_format: "bcoo", "bcsr", "coo", "csr" or "csc".
        kwds: of BCOO: `n_batch` and `n_dense`.

    Raises ValueError for another form.
    """
    M = N if M is None else M
    return _form(sparse_format)._eye(int(N), int(M), int(k), dtype=dtype, index_dtype=index_dtype, **kwds)


__all__ = ["empty", "eye"]
