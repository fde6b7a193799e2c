"""Trees of tangents and cotangents: in the place of keys, whose words a program sees, they have an array of dtype float0."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray

from .. import tree_util


class _Mark:
    """Stands for a leaf of a program's arguments or results; in its place for keys there is one that says so."""

    def __init__(self, of_keys: bool = False) -> None:
        self.of_keys = of_keys

    def made_keys(self, impl: str) -> _Mark:
        """What the array of keys is made of its words' mark."""
        return _Mark(True)


@lru_cache(maxsize=1024)
def structure_of_tangents(tree: Any) -> tuple[Any, tuple[bool, ...]]:
    """The structure of tangents for a structure of values, where arrays of keys are leaves, and which of its leaves these are."""
    leaves, tangent_tree = tree_util.flatten_arrays(
        tree_util.tree_unflatten(tree, [_Mark() for _ in range(tree.num_leaves)])
    )
    return tangent_tree, tuple(mark.of_keys for mark in leaves)


def flatten_tangents(tangents: Any, tree: Any, avals: Sequence[ShapedArray]) -> tuple[list[Any], Any]:
    """The leaves and the structure of tangents for values of this structure and these types.

    Where the structure is right it is `tree`, and zeros for keys have the shape of their words.
    """
    leaves, given = tree_util.flatten_arrays(tangents)
    if given == tree:
        return leaves, tree
    tangent_tree, of_keys = structure_of_tangents(tree)
    if given != tangent_tree:
        return leaves, given
    return [_of_words(x, a) if keys else x for x, a, keys in zip(leaves, avals, of_keys, strict=True)], tree


def _of_words(x: Any, aval: ShapedArray) -> Any:
    is_zero = getattr(x, "dtype", None) == dtypes.float0 and tuple(x.shape) == aval.shape[:-1]
    return np.zeros(aval.shape, dtypes.float0) if is_zero else x


__all__ = ["flatten_tangents", "structure_of_tangents"]
