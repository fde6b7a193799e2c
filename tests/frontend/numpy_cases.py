"""Comparison of quire.numpy with jax.numpy: values, shapes, dtypes, weak types and the classes of errors."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import quire.numpy as qnp

DTYPES = ["bool", "int8", "int32", "uint8", "uint32", "float16", "bfloat16", "float32", "complex64"]
EDGES = {
    "b": [True, False, True, False],
    "i": [0, 1, -1, 5, -7, 3, 127, -128],
    "u": [0, 1, 5, 7, 3, 255],
    "f": [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 3.25, np.inf, -np.inf, np.nan, 20.0],
    "c": [0, 1, -1 + 1j, 2.5 - 3j, 1j, 0.5, -2, 3 + 4j],
}


def values(dtype: str) -> np.ndarray[Any, Any]:
    """Values of a dtype with its edges, as a NumPy array."""
    d = np.dtype(getattr(jnp, dtype) if dtype == "bfloat16" else dtype)
    kind = "f" if d.kind == "V" else d.kind
    return np.array(EDGES[kind]).astype(d)


def to_quire(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return qnp.asarray(x)
    if isinstance(x, list | tuple):
        return type(x)(to_quire(v) for v in x)
    return x


def run(f: Any, args: Any, kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f(*args, **kwargs)
        except (TypeError, ValueError, NotImplementedError, IndexError) as error:
            return error


TOLERANCE = {"float16": 4e-3, "bfloat16": 2e-2, "float32": 2e-5, "complex64": 2e-5}


def same(got: Any, want: Any, rtol: float | None = None, atol: float = 1e-6) -> str:
    """What differs between two results; empty if nothing."""
    if isinstance(want, Exception) or isinstance(got, Exception):
        both = isinstance(want, Exception) and isinstance(got, Exception)
        return "" if both else f"got {got!r}, want {want!r}"
    if isinstance(want, list | tuple):
        if len(got) != len(want):
            return f"{len(got)} results, want {len(want)}"
        return "; ".join(filter(None, (same(g, w, rtol, atol) for g, w in zip(got, want))))
    if not hasattr(want, "shape"):
        return "" if got == want else f"got {got!r}, want {want!r}"
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"got {got.dtype}{list(got.shape)}, want {want.dtype}{list(want.shape)}"
    if hasattr(want, "weak_type") and got.weak_type != want.weak_type:
        return f"got weak_type {got.weak_type}, want {want.weak_type}"
    g, w = np.asarray(got), np.asarray(want)
    tolerance = TOLERANCE.get(str(w.dtype), 0) if rtol is None else rtol
    wide = np.complex128 if w.dtype.kind == "c" else np.float64
    if not np.allclose(g.astype(wide), w.astype(wide), rtol=tolerance, atol=atol, equal_nan=True):
        return f"got {g!r}, want {w!r}"
    return ""


def check(name: str, *args: Any, rtol: float | None = None, atol: float = 1e-6, **kwargs: Any) -> None:
    """Call quire.numpy's and jax.numpy's function of one name and compare."""
    got = run(getattr(qnp, name), [to_quire(a) for a in args], {k: to_quire(v) for k, v in kwargs.items()})
    want = run(getattr(jnp, name), args, kwargs)
    difference = same(got, want, rtol, atol)
    shown = ", ".join(f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else repr(a) for a in args)
    assert not difference, f"{name}({shown}, {kwargs}): {difference}"


Call = tuple[str, list[Any], dict[str, Any]]
"""A function's name, its arguments (arrays as NumPy's, also in lists) and keywords."""


def call(name: str, *args: Any, **kwargs: Any) -> Call:
    return name, list(args), kwargs


def _arrays(x: Any) -> list[np.ndarray[Any, Any]]:
    if isinstance(x, np.ndarray):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    return [a for v in x for a in _arrays(v)] if isinstance(x, list | tuple) else []


def _put(x: Any, arrays: Any) -> Any:
    """`x` with its arrays replaced by the next ones of an iterator, in the order of `_arrays`."""
    if isinstance(x, np.ndarray):
        return next(arrays)
    if isinstance(x, dict):
        return {k: _put(v, arrays) for k, v in x.items()}
    return type(x)(_put(v, arrays) for v in x) if isinstance(x, list | tuple) else x


def expected(calls: list[Call]) -> list[Any]:
    """jax.numpy's results: one compiled function for all calls that can be traced, the others one by one."""
    results: dict[int, Any] = {}
    left: list[int] = []

    def everything(arrays: list[list[Any]]) -> dict[int, Any]:
        out = {}
        for i, ((name, args, kwargs), mine) in enumerate(zip(calls, arrays)):
            given = _put((args, kwargs), iter(mine))
            got = run(getattr(jnp, name), *given)
            leaves = jax.tree_util.tree_leaves(got)
            if isinstance(got, Exception) or not all(isinstance(v, jax.Array) for v in leaves):
                left.append(i)
            else:
                out[i] = got
        return out

    arrays = [_arrays((args, kwargs)) for _, args, kwargs in calls]
    results |= jax.jit(everything, compiler_options={"xla_backend_optimization_level": 0})(arrays)
    results |= {i: run(getattr(jnp, calls[i][0]), *calls[i][1:]) for i in left}
    return [results[i] for i in range(len(calls))]


def check_calls(calls: list[Call], rtol: float | None = None, atol: float = 1e-6) -> None:
    """Compare quire.numpy's and jax.numpy's results of all calls, and show every one that differs."""
    wrong = []
    for (name, args, kwargs), want in zip(calls, expected(calls)):
        mine = to_quire(args), {k: to_quire(v) for k, v in kwargs.items()}
        try:
            difference = same(run(getattr(qnp, name), *mine), want, rtol, atol)
        except Exception as error:
            difference = f"{type(error).__name__}: {error}"
        if difference:
            wrong.append(f"{name}({shown(args)[1:-1]}, {shown(kwargs)}): {difference}")
    assert not wrong, "\n" + "\n".join(wrong)


def shown(x: Any) -> str:
    if isinstance(x, np.ndarray):
        return f"{x.dtype}{list(x.shape)}"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{k}: {shown(v)}" for k, v in x.items()) + "}"
    return "[" + ", ".join(map(shown, x)) + "]" if isinstance(x, list | tuple) else repr(x)


def array_of(dtype: str, *shape: int, seed: int = 0, low: int = -4, high: int = 5) -> np.ndarray[Any, Any]:
    """Small numbers, with repetitions; halves for the inexact dtypes."""
    rng = np.random.default_rng([seed, *shape])
    d = np.dtype(dtype)
    x = rng.integers(0 if d.kind == "u" else low, high, shape)
    if d.kind == "b":
        return x > 0
    if d.kind == "c":
        return (x / 2 + 1j * rng.integers(low, high, shape) / 2).astype(d)
    return (x / 2).astype(d) if d.kind == "f" else x.astype(d)


KINDS = ["bool", "int8", "uint8", "int32", "float16", "float32", "complex64"]
