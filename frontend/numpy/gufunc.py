"""Functions of slices: `vectorize` over all leading dimensions, `apply_along_axis`, `apply_over_axes`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from quire.ir.avals import aval_of
from quire.ir.primitives import structural as st

from ..arrays.operands import Value, as_axis, check_rank_promotion, ensure
from ..transforms.vectorization import vmap

_CORE = r"\((?:\w+(?:,\w+)*)?,?\)"
_SIGNATURE = re.compile(rf"^{_CORE}(?:,{_CORE})*->{_CORE}(?:,{_CORE})*$")

Core = tuple[str, ...]


def _parse(signature: str) -> tuple[list[Core], list[Core]]:
    text = re.sub(r"\s+", "", signature)
    if not _SIGNATURE.match(text):
        raise ValueError(
            f"vectorize: not a valid gufunc signature: {signature!r}; expected for example '(n,m),(m)->(n)'"
        )
    inputs, outputs = text.split("->")
    return _cores(inputs), _cores(outputs)


def _cores(text: str) -> list[Core]:
    return [tuple(d for d in core[1:-1].split(",") if d) for core in re.findall(_CORE, text)]


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Collection[int | str] = frozenset(), signature: str | None = None
) -> Callable[..., Any]:
    """A function that applies `pyfunc` to every core slice of its broadcast arguments, as one batched computation.

    Args:
        pyfunc: a function of arrays of the core shapes.
        excluded: positions or names of arguments that are passed on as they are.
        signature: the core dimensions of arguments and results, ``(m,n),(n)->(m)``; scalars without it.

    Raises:
        ValueError: the arguments do not fit the signature or each other.
        TypeError: the number of arguments or results is not the signature's.

    Example:
        >>> import quire.numpy as qnp
        >>> qnp.vectorize(qnp.dot, signature="(n),(n)->()")(qnp.ones((4, 1, 3)), qnp.ones((5, 3))).shape
        (4, 5)
    """
    for e in excluded:
        if not isinstance(e, int | str) or isinstance(e, bool):
            raise TypeError(f"vectorize: excluded must hold ints and strings, got {e!r}")
    if any(isinstance(e, int) and e < 0 for e in excluded):
        raise ValueError(f"vectorize: excluded positions must not be negative, got {sorted(map(str, excluded))}")
    given_cores = None if signature is None else _parse(signature)

    @functools.wraps(pyfunc)
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        error = f"vectorize of {getattr(pyfunc, '__name__', 'a function')}"
        mapped_names = [k for k in kwargs if k not in excluded]
        if mapped_names:  # by name, after the positional ones
            f, args, kwargs = _positional(pyfunc, args, kwargs, mapped_names)
        else:
            f = pyfunc
        missing = [i for i in range(len(args)) if args[i] is None and i not in excluded]
        if missing and signature is not None:
            raise ValueError(f"{error}: None was given at {missing}, where the signature {signature!r} has arrays")
        at = [i for i in range(len(args)) if i not in excluded and i not in missing]
        arrays = [args[i] if hasattr(args[i], "shape") else np.asarray(args[i]) for i in at]

        def call(*xs: Any) -> Any:
            full = list(args)
            for i, x in zip(at, xs, strict=True):
                full[i] = x
            return f(*full, **kwargs)

        cores, results = given_cores or ([()] * len(arrays), None)
        if len(cores) != len(arrays):
            raise TypeError(f"{error}: the signature {signature!r} takes {len(cores)} arguments, got {len(arrays)}")
        sizes: dict[str, int] = {}
        for i, (x, core) in enumerate(zip(arrays, cores)):
            _bind_sizes(sizes, np.shape(x), core, f"{error}: argument {at[i]}")
        outer = [np.shape(x)[: len(np.shape(x)) - len(core)] for x, core in zip(arrays, cores)]
        check_rank_promotion("vectorize", outer)
        try:
            shape = np.broadcast_shapes(*outer)
        except ValueError:
            raise ValueError(f"{error}: the leading dimensions {outer} cannot be broadcast together") from None
        checked = call if results is None else functools.partial(_checked, call, results, sizes, error)
        # One vmap a leading dimension, innermost first; an argument takes part where it has more than one row.
        xs = [_squeezed(x, len(o)) for x, o in zip(arrays, outer)]
        batched: Callable[..., Any] = checked
        lone: list[int] = []  # leading dimensions of size 1 for all
        for k in range(1, len(shape) + 1):
            axes = tuple(0 if len(o) >= k and o[-k] != 1 else None for o in outer)
            if all(a is None for a in axes):
                lone.append(len(shape) - k)
            else:
                batched = vmap(batched, in_axes=axes)
        out = batched(*xs)
        if lone:
            out = (
                tuple(st.expand_dims(x, sorted(lone)) for x in out) if isinstance(out, tuple)
                else st.expand_dims(out, sorted(lone))
            )  # fmt: skip
        return out

    return vectorized


def _positional(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], names: Sequence[str]
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    n = len(args)

    def call(*xs: Any, **fixed: Any) -> Any:
        return f(*xs[:n], **dict(zip(names, xs[n:])), **fixed)

    rest = {k: v for k, v in kwargs.items() if k not in names}
    return call, (*args, *(kwargs[k] for k in names)), rest


def _squeezed(x: Any, n_outer: int) -> Any:
    """x without its leading dimensions of size 1."""
    lone = [i for i in range(n_outer) if np.shape(x)[i] == 1]
    return st.squeeze(x, lone) if lone else x


def _bind_sizes(sizes: dict[str, int], shape: tuple[int, ...], core: Core, what: str) -> None:
    if len(shape) < len(core):
        raise ValueError(
            f"{what} does not have enough dimensions: the core dimensions are ({','.join(core)}), its shape is {shape}"
        )
    for name, n in zip(core, shape[len(shape) - len(core) :]):
        if sizes.setdefault(name, n) != n:
            raise ValueError(f"{what} has size {n} for the core dimension {name!r}, another has {sizes[name]}")


def _checked(call: Callable[..., Any], results: Sequence[Core], sizes: dict[str, int], error: str, *xs: Any) -> Any:
    out = call(*xs)
    outs = out if isinstance(out, tuple) else (out,)
    if len(outs) != len(results):
        raise TypeError(f"{error}: the signature has {len(results)} results, the function returned {len(outs)}")
    known = dict(sizes)
    for i, (x, core) in enumerate(zip(outs, results)):
        shape = aval_of(x).shape
        if len(shape) != len(core):
            raise ValueError(
                f"{error}: result {i} has the shape {shape}, expected the core dimensions ({','.join(core)})"
            )
        _bind_sizes(known, shape, core, f"{error}: result {i}")
    return out


def apply_along_axis(func1d: Callable[..., Any], axis: Any, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of vectors applied to every vector along an axis, as one batched computation.

    Args:
        func1d: a function of a vector (and the further arguments) that returns an array.
        axis: the axis along which the vectors lie; the results' dimensions take its place.
        arr: an array.

    Follows `numpy.apply_along_axis`.

    >>> quire.numpy.apply_along_axis(quire.numpy.sum, 1, quire.numpy.array([[1, 2], [3, 4]]))
    Array([3, 7], dtype=int32)
    """
    x = ensure("apply_along_axis", arr, "arr")
    d = as_axis("apply_along_axis", axis, x.ndim)

    def of_vector(v: Value) -> Any:
        return func1d(v, *args, **kwargs)

    f: Callable[..., Any] = of_vector
    for i in range(1, x.ndim - d):
        f = vmap(f, in_axes=i, out_axes=-1)
    for _ in range(d):
        f = vmap(f)
    return f(x)


def apply_over_axes(func: Callable[[Any, int], Any], a: Any, axes: Any) -> Value:
    """A reduction applied over several axes, one after the other, with their dimensions kept.

    Args:
        func: a function of an array and an axis that keeps the number of dimensions or takes that axis away.
        a: an array.
        axes: an axis or several.

    Raises:
        ValueError: func returned an array of another number of dimensions.

    Follows `numpy.apply_over_axes`.

    >>> quire.numpy.apply_over_axes(quire.numpy.sum, quire.numpy.ones((2, 3)), (0, 1))
    Array([[6.]], dtype=float32)
    """
    x = ensure("apply_over_axes", a, "a")
    for axis in axes if isinstance(axes, Sequence | np.ndarray) else (axes,):
        d = as_axis("apply_over_axes", axis, x.ndim)
        out = func(x, d)
        if out.ndim not in (x.ndim, x.ndim - 1):
            raise ValueError(
                f"quire.numpy.apply_over_axes: the function must keep the {x.ndim} dimensions of its argument or take away "
                f"axis {d}, it returned {aval_of(out).short()}"
            )
        x = out if out.ndim == x.ndim else st.expand_dims(out, (d,))
    return x


__all__ = ["apply_along_axis", "apply_over_axes", "vectorize"]
