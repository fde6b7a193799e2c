"""The functions a user calls on functions: compile, make_jaxpr, eval_shape, device_put."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, overload

import numpy as np

from quire.ir.avals import aval_of
from quire.ir.config import config
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives.elementwise import copy_p
from quire.ir.source import reports_memory
from quire.ir.tracing import Tracer
from quire.runtime.array import Array, device_of, device_view, from_numpy, from_view, host_value, own_device
from quire.runtime.devices import Device

from . import tree_util
from .compiling.aot import ShapeDtypeStruct
from .compiling.compiled_function import CompiledFunction
from .placement import as_device


@overload
def compile(f: Callable[..., Any], /, **options: Any) -> CompiledFunction: ...
@overload
def compile(**options: Any) -> Callable[[Callable[..., Any]], CompiledFunction]: ...


_LATER: Any = object()


def compile(f: Callable[..., Any] = _LATER, /, **options: Any) -> Any:
    """Compile a function: it is traced at its first call with arguments of some types, and then runs as one program.

    Use as a decorator, with or without arguments, or as a function; `quire.jit` is the same object.

    Args:
        f: a function of arrays, numbers and pytrees of them. Its side effects happen once, when it is traced.
        static_argnums, static_argnames: arguments that are Python values: each new value compiles a variant. They
            must be hashable.
        donate_argnums, donate_argnames: arguments whose memory the results may take; they cannot be used afterwards.
        keep_unused: pass arguments to the program that it does not use.
        inline: inside another compiled function, record the function's equations instead of one `jit` equation.
        device, backend: where to run: a device, or the name of a platform (``"cpu"``, ``"vulkan"``, ``"cuda"``).
        max_variants: raise `TooManyVariantsError` when more signatures than this are compiled.
        tiered: answer the first calls of each signature by the reference backend (NumPy) while the program compiles in
            the background; results may differ by rounding between the two. CPU only; elsewhere calls wait as usual.

    Returns:
        A `CompiledFunction`, which is called as `f` is.

    Example:
        >>> import quire
        >>> @quire.compile
        ... def f(x, y):
        ...     return x * y + 1
        >>> float(f(2.0, 3.0))
        7.0
    """
    if f is _LATER:
        return lambda g: compile(g, **options)
    return CompiledFunction(f, **options)


jit = compile


def make_jaxpr(
    f: Callable[..., Any], static_argnums: Any = (), return_shape: bool = False, *, static_argnames: Any = None
) -> Callable[..., Any]:
    """A function that returns the jaxpr of `f` for the arguments' types, instead of running it.

    With `return_shape` it returns also the tree of the results' `ShapeDtypeStruct`s.

    Example:
        >>> import quire
        >>> print(quire.make_jaxpr(lambda x: x * 2.0)(3.0))
        { lambda ; a:f32[]*. let b:f32[]* = mul a 2.0:f32[]* in (b,) }
    """
    function = f if isinstance(f, CompiledFunction) else None
    traced_function = CompiledFunction(
        (lambda *a, **k: f(*a, **k)) if function is not None else f,
        static_argnums=static_argnums or None,
        static_argnames=static_argnames,
    )

    def traced(*args: Any, **kwargs: Any) -> ClosedJaxpr | tuple[ClosedJaxpr, Any]:
        result = traced_function.trace(*args, **kwargs)
        return (result.jaxpr, result.out_info) if return_shape else result.jaxpr

    traced.__name__ = f"make_jaxpr({getattr(f, '__name__', f)})"
    return traced


def eval_shape(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes of ``f(*args, **kwargs)`` without computing it.

    Arguments may be arrays or `ShapeDtypeStruct`s; the result is a tree of `ShapeDtypeStruct`s.
    """
    return CompiledFunction(lambda *a, **k: f(*a, **k)).eval_shape(*args, **kwargs)


@reports_memory
def device_put(x: Any, device: Any = None, *, donate: bool = False, may_alias: bool | None = None) -> Any:
    """Copy a pytree of arrays to a device (the default one when None).

    `device` is a `Device` or the name of a platform. An array that is there already is returned as it is.
    """
    target = as_device(device)

    def put(leaf: Any) -> Any:
        if isinstance(leaf, Tracer):
            return copy_p.bind(leaf)
        aval = aval_of(leaf)
        if type(leaf) is Array:
            if device_of(leaf) is target:
                return leaf
            return from_view(device_view(leaf, target), aval, own_device(target))
        value = np.array(leaf, dtype=aval.dtype)
        value.setflags(write=False)
        array = from_numpy(value, aval, own_device(target))
        if not target.is_host:
            device_view(array, target)
        return array

    leaves, tree = tree_util.flatten_arrays(x)
    return tree_util.tree_unflatten(tree, [put(leaf) for leaf in leaves])


def device_get(x: Any) -> Any:
    """Copy a pytree of arrays to host memory, as NumPy arrays."""
    leaves, tree = tree_util.flatten_arrays(x)
    return tree_util.tree_unflatten(
        tree, [host_value(leaf) if type(leaf) is Array else np.asarray(leaf) for leaf in leaves]
    )


@contextmanager
def default_device(device: Device | str | None) -> Generator[None]:
    """Run programs on this device for a block, where their arguments name no device.

    ``config.update("default_device", device)`` does so for the whole process.
    """
    with config.override(default_device=None if device is None else as_device(device)):
        yield


def block_until_ready(x: Any) -> Any:
    """Wait until every array of a pytree is computed; returns it. (Programs run to their end when they are called.)"""
    tree_util.flatten_arrays(x)
    return x


__all__ = [
    "CompiledFunction", "ShapeDtypeStruct", "block_until_ready", "compile", "device_get", "device_put", "eval_shape",
    "jit", "make_jaxpr",
]  # fmt: skip
