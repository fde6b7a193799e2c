"""Python functions called from compiled programs: pure_callback, io_callback; `quire.debug` builds on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.errors import CallbackResultError
from quire.ir.primitives import calls
from quire.ir.tracing import no_trace

from ..tree_util import flatten_arrays, tree_unflatten

VMAP_METHODS = ("sequential", "expand_dims", "broadcast_all", "legacy_vectorized")


def _name(f: Any) -> str:
    return getattr(f, "__name__", None) or type(f).__name__


@dataclass(frozen=True)
class FlatCallback:
    """A Python function of flat NumPy arrays, made of the user's and of the structures of its arguments and results.

    Leaves of the arguments that are no arrays are kept in `static` as (position, value).
    """

    api: str
    function: Callable[..., Any]
    in_tree: Any
    out_tree: Any
    result_avals: tuple[ShapedArray, ...] | None
    static: tuple[tuple[int, Any], ...] = ()

    @property
    def __name__(self) -> str:
        return _name(self.function)

    def __repr__(self) -> str:
        return self.__name__

    def __call__(self, *arrays: Any) -> list[Any]:
        leaves = list(arrays)
        for i, value in self.static:
            leaves.insert(i, value)
        args, kwargs = tree_unflatten(self.in_tree, leaves)
        with no_trace():
            out = self.function(*args, **kwargs)
        if self.result_avals is None:
            return []
        return self._checked(out)

    def _leaves(self, out: Any) -> list[Any]:
        """The results in order; their structure is the declared one where it has as many leaves (a list for a tuple)."""
        leaves, tree = flatten_arrays(out)
        if tree.num_leaves != self.out_tree.num_leaves:
            raise CallbackResultError(
                f"{self.api}: function {self.__name__} returned the structure {_show(tree)}, "
                f"{_show(self.out_tree)} was declared"
            )
        return leaves

    def _checked(self, out: Any) -> list[Any]:
        """The results as NumPy arrays of the declared types."""
        assert self.result_avals is not None
        leaves = self._leaves(out)
        results: list[Any] = []
        for i, (leaf, want) in enumerate(zip(leaves, self.result_avals, strict=True)):
            array = np.asarray(leaf)
            # Batched by vmap: leading dimensions may be given once for all.
            if array.shape != want.shape and array.ndim == len(want.shape) and all(
                n in (1, m) for n, m in zip(array.shape, want.shape)
            ) and len(want.shape) > 0 and array.shape[1:] == want.shape[1:]:  # fmt: skip
                array = np.broadcast_to(array, want.shape)
            scalar = not isinstance(leaf, np.ndarray | np.generic)
            if array.shape != want.shape or not (array.dtype == want.dtype or _converts(array, want, scalar)):
                given = f"{array.dtype}{list(array.shape)}"
                raise CallbackResultError(
                    f"{self.api}: function {self.__name__} returned {given} as result {i}, "
                    f"{want.dtype}{list(want.shape)} was declared: convert the result (astype, reshape) or declare "
                    "what it returns"
                )
            results.append(array.astype(want.dtype, copy=False))
        return results


def _converts(array: np.ndarray[Any, Any], want: ShapedArray, scalar: bool) -> bool:
    """Whether a result of another dtype is taken: numbers of Python, and 64-bit results while 64-bit types are off."""
    if dtypes.canonicalize(array.dtype) == want.dtype:
        return True
    return scalar and np.can_cast(array.dtype, want.dtype, "same_kind")


def _show(tree: Any) -> str:
    text = str(tree)
    return text.removeprefix("PyTreeSpec(").split(", namespace")[0].removesuffix(")")


def _result_avals(api: str, shapes: Any) -> tuple[tuple[ShapedArray, ...], Any]:
    leaves, tree = flatten_arrays(shapes)
    avals: list[ShapedArray] = []
    for leaf in leaves:
        shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
        if shape is None or dtype is None:
            raise TypeError(
                f"{api}: result_shape_dtypes must hold objects with shape and dtype (quire.ShapeDtypeStruct), "
                f"got {leaf!r}"
            )
        wanted = dtypes.as_dtype(dtype)
        if (narrow := dtypes.explicit(wanted)) != wanted:
            raise ValueError(
                f"{api}: result_shape_dtypes cannot specify 64-bit types without enable_x64, got {wanted}: declare {narrow}"
            )
        avals.append(ShapedArray(tuple(shape), wanted))
    return tuple(avals), tree


def _check(api: str, callback: Any) -> None:
    if not callable(callback):
        raise TypeError(f"{api}: callback must be a function, got {callback!r}")


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Call a Python function without side effects from a compiled program.

    Args:
        callback: takes the arguments as NumPy arrays (in their pytrees) and returns what is declared.
        result_shape_dtypes: pytree of `ShapeDtypeStruct`s (or arrays) with the results' shapes and dtypes.
        args, kwargs: pytrees of arrays.
        vmap_method: under vmap: "sequential" calls once a lane, "expand_dims" once with a leading batch dimension on
            batched arguments and a dimension of size 1 on the others, "broadcast_all" with it on all arguments.

    Returns the results in the declared structure. It has no derivative: wrap it in `custom_jvp`.

    Raises:
        TypeError: `callback` is not a function.
        CallbackResultError: it returns another number of arrays, shape or dtype than declared.
        ValueError: `vmap_method` is none of the names that JAX takes, or 64-bit types are declared without `enable_x64`.

    The function's own exceptions reach the caller with their type.

    Example: ``quire.pure_callback(np.sort, quire.ShapeDtypeStruct(x.shape, x.dtype), x)``.
    """
    _check("pure_callback", callback)
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        raise ValueError(f"pure_callback: vmap_method must be one of {', '.join(VMAP_METHODS)}, got {vmap_method!r}")
    leaves, in_tree = flatten_arrays((args, kwargs))
    avals, out_tree = _result_avals("pure_callback", result_shape_dtypes)
    flat = FlatCallback("pure_callback", callback, in_tree, out_tree, avals)
    if vmap_method not in (None, "sequential"):
        flat = _Vectorized("pure_callback", callback, in_tree, out_tree, None)
    out = calls.pure_callback_p.bind(*leaves, callback=flat, result_avals=avals, vmap_method=vmap_method)
    return tree_unflatten(out_tree, out)


class _Vectorized(FlatCallback):
    """A callback that may be called with leading batch dimensions: the host interface checks shapes."""

    def __call__(self, *arrays: Any) -> list[Any]:
        args, kwargs = tree_unflatten(self.in_tree, list(arrays))
        with no_trace():
            out = self.function(*args, **kwargs)
        return [_narrow(np.asarray(x)) for x in self._leaves(out)]


def _narrow(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype(dtypes.canonicalize(array.dtype), copy=False)


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function with side effects from a compiled program, exactly once each time it is reached.

    Args:
        callback: takes the arguments as NumPy arrays and returns what is declared (None for no results).
        result_shape_dtypes: pytree with the results' shapes and dtypes; None for none.
        ordered: calls happen in the order of the program (they always do here); such a call cannot be vmapped.

    Raises as `pure_callback`. Example: ``quire.io_callback(log.append, None, x, ordered=True)``.
    """
    _check("io_callback", callback)
    leaves, in_tree = flatten_arrays((args, kwargs))
    avals, out_tree = _result_avals("io_callback", result_shape_dtypes)
    flat = FlatCallback("io_callback", callback, in_tree, out_tree, avals)
    out = calls.io_callback_p.bind(*leaves, callback=flat, result_avals=avals, ordered=bool(ordered))
    return tree_unflatten(out_tree, out)


def bind_debug(callback: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], ordered: bool) -> None:
    """Record a debug callback; leaves of the arguments that are no arrays are passed as they are."""
    leaves, in_tree = flatten_arrays((tuple(args), kwargs))
    static: list[tuple[int, Any]] = []
    operands: list[Any] = []
    for i, leaf in enumerate(leaves):
        try:
            aval_of(leaf)
        except TypeError:
            static.append((i, leaf))
        else:
            operands.append(leaf)
    flat = FlatCallback("debug.callback", callback, in_tree, None, None, tuple(static))
    calls.debug_callback_p.bind(*operands, callback=flat, ordered=bool(ordered))
