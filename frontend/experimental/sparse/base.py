"""The base of sparse arrays."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ... import tree_util

Value = Any


#: What methods of sparse arrays call, by name: functions of modules that build on the arrays' classes, which enter them here.
METHODS: dict[str, Callable[..., Any]] = {}


class JAXSparse(abc.ABC):
    """The base of sparse arrays: pytrees of buffers, with an array's shape and operators.

    Attributes:
        data: the stored elements.
        shape: the whole array's.
    """

    data: Value
    shape: tuple[int, ...]
    # NumPy's arrays leave products with these to them.
    __array_ufunc__ = None
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, args: Sequence[Value], *, shape: Sequence[int]) -> None:
        self.shape = tuple(int(n) for n in shape)

    @property
    @abc.abstractmethod
    def nse(self) -> int:
        """The number of stored elements."""

    @abc.abstractmethod
    def todense(self) -> Value:
        """The whole array."""

    @property
    def _bufs(self) -> tuple[Value, ...]:
        return tuple(tree_util.tree_leaves(self))

    @property
    def dtype(self) -> Any:
        """The elements' dtype."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements, those that are not stored included."""
        return math.prod(self.shape)

    @property
    def T(self) -> Any:  # noqa: N802 - NumPy's name
        """The transpose."""
        return self.transpose()

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        try:
            return f"{type(self).__name__}({self._described()})"
        except Exception:
            return f"{type(self).__name__}(<invalid>)"

    def _described(self) -> str:
        return f"{self.dtype}{list(self.shape)}, nse={self.nse}"

    def block_until_ready(self) -> Any:
        """The array itself, once its buffers are computed."""
        for buffer in self._bufs:
            buffer.block_until_ready()
        return self

    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """The array with its dimensions in another order. Raises NotImplementedError where a form does not have it."""
        self._absent("transpose")

    def sum(self, *args: Any, **kwargs: Any) -> Any:
        """The sum. Raises NotImplementedError where a form does not have it."""
        self._absent("sum")

    def _absent(self, name: str) -> NoReturn:
        raise NotImplementedError(f"quire.experimental.sparse.{type(self).__name__}.{name} is not implemented")

    def __neg__(self) -> Any:
        self._absent("__neg__")

    def __pos__(self) -> Any:
        self._absent("__pos__")

    def __matmul__(self, other: Any) -> Any:
        self._absent("__matmul__")

    def __rmatmul__(self, other: Any) -> Any:
        self._absent("__rmatmul__")

    def __mul__(self, other: Any) -> Any:
        self._absent("__mul__")

    def __rmul__(self, other: Any) -> Any:
        self._absent("__rmul__")

    def __add__(self, other: Any) -> Any:
        self._absent("__add__")

    def __radd__(self, other: Any) -> Any:
        self._absent("__radd__")

    def __sub__(self, other: Any) -> Any:
        self._absent("__sub__")

    def __rsub__(self, other: Any) -> Any:
        self._absent("__rsub__")

    def __getitem__(self, item: Any) -> Any:
        self._absent("__getitem__")
