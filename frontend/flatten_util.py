"""Trees of arrays as one vector, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import numpy as jnp
from .absent_names import module_getattr
from .arrays.operands import Value, array_of
from .tree_util import tree_flatten, tree_unflatten


def ravel_pytree(pytree: Any) -> tuple[Value, Callable[[Value], Any]]:
    """All leaves of a tree as one vector, and the function that makes such a tree of such a vector.

    Args:
        pytree: a tree of arrays and numbers.

    Returns the vector, of the dtype to which those of the leaves promote, and ``unravel``, which gives the leaves their
    shapes and dtypes back. It raises ValueError for a vector of another size, and TypeError for one of another dtype
    unless all leaves have one dtype: then they get that of the vector.

    Follows `jax.flatten_util.ravel_pytree`.

    >>> vector, unravel = quire.flatten_util.ravel_pytree({"a": 1.0, "b": quire.numpy.arange(2.)})
    >>> vector
    Array([1., 0., 1.], dtype=float32)
    >>> unravel(2 * vector)
    {'a': Array(2., dtype=float32), 'b': Array([0., 2.], dtype=float32)}
    """
    leaves, treedef = tree_flatten(pytree)
    arrays = [array_of("quire.flatten_util.ravel_pytree", x, f"leaf {i}") for i, x in enumerate(leaves)]
    shapes = [x.shape for x in arrays]
    kinds = [x.dtype for x in arrays]
    wanted = jnp.result_type(*arrays) if arrays else jnp.result_type(float)
    parts = [jnp.ravel(x).astype(wanted) for x in arrays]
    vector = jnp.concatenate(parts) if parts else jnp.zeros(0, wanted)
    ends = np.cumsum([math.prod(s) for s in shapes]).tolist()
    size = ends[-1] if ends else 0
    mixed = any(kind != wanted for kind in kinds)

    def unravel(vector: Any) -> Any:
        vector = array_of("unravel", vector, "the vector")
        if vector.shape != (size,):
            raise ValueError(f"unravel: the vector must have shape ({size},), got {vector.aval.short()}")
        if mixed and vector.dtype != wanted:
            raise TypeError(f"unravel: the vector must have dtype {wanted}, got {vector.aval.short()}")
        pieces = jnp.split(vector, ends[:-1]) if ends else []
        return tree_unflatten(
            treedef, [_as_kind(x.reshape(s), kind if mixed else x.dtype) for x, s, kind in zip(pieces, shapes, kinds)]
        )

    return vector, unravel


def _as_kind(x: Value, kind: np.dtype[Any]) -> Value:
    return (x.real if x.dtype.kind == "c" and kind.kind != "c" else x).astype(kind)


__all__ = ["ravel_pytree"]

__getattr__ = module_getattr("quire.flatten_util", globals())
