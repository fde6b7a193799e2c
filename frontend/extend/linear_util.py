"""Functions with transformations around them (`jax.extend.linear_util`).

A `WrappedFun` is a function and a list of transformations, each of which sees the call on its way in and the result on
its way out, and may store a value beside it (the tree of the results, say). Two are equal if their function and
transformations are, which `cache` asks.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Generator, Sequence
from typing import Any

from quire.ir.jaxpr import DebugInfo

from ..absent_names import module_getattr


class StoreException(Exception):
    """A store was read before anything was stored, or something was stored twice."""


_EMPTY = object()


class Store:
    """A value that a transformation stores once, beside a function's result."""

    __slots__ = ("_val",)

    def __init__(self) -> None:
        self._val: Any = _EMPTY

    def store(self, val: Any) -> None:
        """Store the value. Raises StoreException where one is stored already."""
        if self._val is not _EMPTY:
            raise StoreException("Store occupied")
        self._val = val

    def reset(self) -> None:
        """Forget the value."""
        self._val = _EMPTY

    @property
    def val(self) -> Any:
        """The value. Raises StoreException where none is stored."""
        if self._val is _EMPTY:
            raise StoreException("Store empty")
        return self._val

    def __bool__(self) -> bool:
        return self._val is not _EMPTY


class EqualStore(Store):
    """A store that takes a value again if it is equal to the one that it has."""

    __slots__ = ()

    def store(self, val: Any) -> None:
        """Store the value. Raises StoreException where another one is stored."""
        if self._val is not _EMPTY and self._val != val:
            raise StoreException(f"Store occupied: {self._val} was stored, now {val}")
        self._val = val


class WrappedFun:
    """A function, and the transformations of its arguments and results, the last one outermost.

    Attributes:
        f: the function itself.
        f_transformed: what is called: the function within all transformations.
        transforms: each transformation and its static arguments, the outermost first.
        stores: the store of each, None where it stores nothing.
        params: keyword arguments that the function is always called with.
        debug_info: what it is, for messages.
    """

    __slots__ = ("f", "f_transformed", "transforms", "stores", "params", "in_type", "debug_info", "__weakref__")

    def __init__(
        self, f: Callable[..., Any], f_transformed: Callable[..., Any], transforms: tuple[Any, ...],
        stores: tuple[Store | None, ...], params: tuple[tuple[str, Any], ...], in_type: Any, debug_info: DebugInfo | None,
    ) -> None:  # fmt: skip
        self.f = f
        self.f_transformed = f_transformed
        self.transforms = transforms
        self.stores = stores
        self.params = params
        self.in_type = in_type
        self.debug_info = DebugInfo() if debug_info is None else debug_info

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed wrapped function>")

    def wrap(self, gen: Callable[..., Any], gen_static_args: tuple[Any, ...], out_store: Store | None) -> WrappedFun:
        """The function with one transformation more: ``gen(f, [store,] *static, *args, **kwargs)`` calls `f`."""
        before = self.f_transformed
        if out_store is None:
            called = functools.partial(gen, before, *gen_static_args)
        else:
            called = functools.partial(gen, before, out_store, *gen_static_args)
        return WrappedFun(
            self.f, called, ((gen, gen_static_args), *self.transforms), (out_store, *self.stores), self.params, None,
            self.debug_info,
        )  # fmt: skip

    def populate_stores(self, stores: Sequence[Store | None]) -> None:
        """Store what an equal function stored when it was called."""
        for own, other in zip(self.stores, stores, strict=True):
            if own is not None and other is not None:
                own.store(other.val)

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """The transformed function's result."""
        return self.f_transformed(*args, **kwargs)

    def replace_debug_info(self, debug_info: DebugInfo) -> WrappedFun:
        """The same function with other information for messages."""
        return WrappedFun(
            self.f, self.f_transformed, self.transforms, self.stores, self.params, self.in_type, debug_info
        )

    def with_unknown_names(self) -> WrappedFun:
        """The same function, of whose arguments and results no names are known."""
        return self.replace_debug_info(self.debug_info._replace(arg_names=None, result_paths=None))

    def __repr__(self) -> str:
        names = [f"{i}: {getattr(gen, '__name__', gen)} {args}" for i, (gen, args) in enumerate(self.transforms)]
        return "Wrapped function:\n" + "".join(f"{n}\n" for n in names) + f"Core: {self.__name__}\n"

    def __hash__(self) -> int:
        return hash((self.f, self.transforms, self.params, self.in_type))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, WrappedFun)
            and self.f == other.f
            and self.transforms == other.transforms
            and self.params == other.params
            and self.in_type == other.in_type
        )


def wrap_init(
    f: Callable[..., Any], params: dict[str, Any] | None = None, *, debug_info: DebugInfo | None = None
) -> WrappedFun:
    """A function without transformations; `params` are keyword arguments that it is always called with."""
    given = dict(params or {})
    called = functools.partial(f, **given) if given else f
    return WrappedFun(f, called, (), (), tuple(sorted(given.items())), None, debug_info)


def transformation2(gen: Callable[..., Any], *bound: Any) -> Any:
    """Decorator: ``gen(f, *static, *args, **kwargs)`` calls `f` and returns the result, as a transformation.

    The decorated function takes a `WrappedFun` and the static arguments, and returns the transformed `WrappedFun`.
    """

    def transform(fun: WrappedFun, *static: Any) -> WrappedFun:
        return fun.wrap(gen, static, None)

    return transform(*bound) if bound else functools.wraps(gen)(transform)


def transformation_with_aux2(gen: Callable[..., Any], *bound: Any, use_eq_store: bool = False) -> Any:
    """As `transformation2`; ``gen(f, store, *static, *args, **kwargs)`` stores a value: ``store.store(value)``.

    The decorated function returns the transformed `WrappedFun`, and a function that gives the stored value.
    """

    def transform(fun: WrappedFun, *static: Any, use_eq_store: bool = use_eq_store) -> tuple[WrappedFun, Any]:
        store = EqualStore() if use_eq_store else Store()
        return fun.wrap(gen, static, store), lambda: store.val

    return transform(*bound) if bound else functools.wraps(gen)(transform)


def _call_generator(
    gen: Callable[..., Generator[Any, Any, None]], f: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """A transformation that is a generator: it yields the arguments, is sent the result, and yields what to return."""
    running = gen(*args, **kwargs)
    inner_args, inner_kwargs = next(running)
    result = running.send(f(*inner_args, **inner_kwargs))
    running.close()
    return result


def transformation(gen: Callable[..., Generator[Any, Any, None]], *bound: Any) -> Any:
    """As `transformation2`, of a generator: ``gen(*static, *args, **kwargs)`` yields ``args, kwargs``, then the result."""

    def transform(fun: WrappedFun, *static: Any) -> WrappedFun:
        return fun.wrap(_Generator(gen), static, None)

    return transform(*bound) if bound else functools.wraps(gen)(transform)


def transformation_with_aux(
    gen: Callable[..., Generator[Any, Any, None]], *bound: Any, use_eq_store: bool = False
) -> Any:
    """As `transformation`; the generator yields last a pair of the result and a value that is stored."""

    def transform(fun: WrappedFun, *static: Any, use_eq_store: bool = use_eq_store) -> tuple[WrappedFun, Any]:
        store = EqualStore() if use_eq_store else Store()
        return fun.wrap(_GeneratorWithAux(gen), static, store), lambda: store.val

    return transform(*bound) if bound else functools.wraps(gen)(transform)


class _Generator:
    """A generator as a transformation; equal for equal generators."""

    def __init__(self, gen: Callable[..., Generator[Any, Any, None]]) -> None:
        self.gen = gen
        self.__name__ = getattr(gen, "__name__", repr(gen))

    def __call__(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return _call_generator(self.gen, f, *args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.gen == other.gen  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.gen)


class _GeneratorWithAux(_Generator):
    def __call__(self, f: Callable[..., Any], store: Store, *args: Any, **kwargs: Any) -> Any:
        result, aux = _call_generator(self.gen, f, *args, **kwargs)
        store.store(aux)
        return result

    __hash__ = _Generator.__hash__


def merge_linear_aux(aux1: Callable[[], Any], aux2: Callable[[], Any]) -> tuple[bool, Any]:
    """Of two stored values the one that is there, and whether it is the first.

    Raises StoreException where both are there, or none.
    """
    try:
        first = aux1()
    except StoreException:
        return False, aux2()
    try:
        aux2()
    except StoreException:
        return True, first
    raise StoreException("both stores occupied")


def cache(call: Callable[..., Any], **_: Any) -> Callable[..., Any]:
    """Remember the results of ``call(fun, *args)`` by the function, its transformations and the arguments.

    A remembered result also stores what the transformations stored. The function's entries go when it does.
    """
    entries: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()
    lock = threading.Lock()

    def memoized(fun: WrappedFun, *args: Any) -> Any:
        with lock:
            table = entries.setdefault(fun.f, {})
        key = (fun.transforms, fun.params, fun.in_type, args)
        found = table.get(key)
        if found is not None:
            result, stores = found
            fun.populate_stores(stores)
            return result
        result = call(fun, *args)
        table[key] = result, fun.stores
        return result

    memoized.cache_clear = entries.clear  # type: ignore[attr-defined]
    memoized.evict_function = lambda f: entries.pop(f, None)  # type: ignore[attr-defined]
    return functools.wraps(call)(memoized)


__all__ = [
    "EqualStore", "Store", "StoreException", "WrappedFun", "cache", "merge_linear_aux", "transformation",
    "transformation2", "transformation_with_aux", "transformation_with_aux2", "wrap_init",
]  # fmt: skip

__getattr__ = module_getattr("quire.extend.linear_util", globals())
