"""Running one function under quire and under JAX: ``check(lambda q, n, l: ...)`` with q, n, l = quire, its numpy, its lax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax

jax = pytest.importorskip("jax")
NARROW = {"float64": "float32", "int64": "int32", "complex128": "complex64"}


def _canonical(x: Any) -> np.ndarray[Any, Any]:
    x = np.asarray(x)
    return x.astype(NARROW.get(str(x.dtype), x.dtype))


def check(f: Callable[[Any, Any, Any], Any], rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Compare the trees that `f` returns under both, with dtypes and shapes."""
    got = f(quire, qnp, lax)
    want = f(jax, jax.numpy, jax.lax)
    assert jax.tree_util.tree_structure(got) == jax.tree_util.tree_structure(want)
    for g, w in zip(map(_canonical, jax.tree_util.tree_leaves(got)), map(_canonical, jax.tree_util.tree_leaves(want))):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        if g.dtype != jax.dtypes.float0:
            np.testing.assert_allclose(g, w, rtol=rtol, atol=atol)


X = np.array([0.5, -1.0, 2.0], np.float32)
W = (np.arange(6.0).reshape(3, 2) / 5).astype(np.float32)
