"""`quire.Array`: the type of arrays in annotations and `isinstance`, for concrete and for traced ones alike."""

from __future__ import annotations

from abc import ABCMeta
from typing import TYPE_CHECKING, Any, NoReturn

from quire.ir.references import Ref
from quire.ir.tracing import Tracer
from quire.runtime import array as _runtime

from . import key_array as _keys

if TYPE_CHECKING:
    Array = _runtime.Array
else:

    class _ArrayType(ABCMeta):
        def __getattr__(cls, name: str) -> Any:
            return getattr(_runtime.Array, name)  # quire.Array.sum(x), and the documentation of methods

        def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
            _runtime.Array()  # raises and says what to use
            raise AssertionError

    class Array(metaclass=_ArrayType):
        """An immutable array of one dtype: `isinstance(x, quire.Array)` holds inside a compiled function too, and for keys.

        Make one with `quire.numpy.array`, `quire.device_put`, or as the result of an operation; not with this class.

        >>> isinstance(quire.numpy.ones(2), quire.Array)
        True
        """

        @classmethod
        def __subclasshook__(cls, kind: type) -> Any:
            return False if issubclass(kind, Ref) else NotImplemented

    Array.__module__ = "quire"
    Array.register(_runtime.Array)
    Array.register(Tracer)
    Array.register(_keys.PRNGKeyArray)
