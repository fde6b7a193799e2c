"""Comparison of quire.numpy with jax.numpy: values, shapes, dtypes, weak types and the classes of errors."""

from __future__ import annotations

import warnings
from typing import Any

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
