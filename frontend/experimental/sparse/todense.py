"""`todense`: a sparse array as an ordinary one, also within a sparsified function."""

from __future__ import annotations

from typing import Any

from quire.ir.tracing import Tracer

from ... import tree_util
from ...compiling.api import jit
from .base import JAXSparse

Value = Any
# The name of the call that marks a value which is to be whole: it is the identity wherever nothing is sparse.
IDENTITY = "sparse_todense"


def sparse_todense(x: Value) -> Value:
    """The array itself."""
    return x


_identity = jit(sparse_todense)


def todense(arr: Any) -> Value:
    """A sparse array as an ordinary one of its shape and dtype; others as they are.

    Within a sparsified function, where arrays that are sparse look like others, it makes them whole.
    """
    if isinstance(arr, JAXSparse):
        return arr.todense()
    return _identity(arr) if isinstance(arr, Tracer) else arr


class ToDense:
    """`todense` by JAX's way of calling primitives: ``todense_p.bind(*buffers, tree=tree)``."""

    name = "todense"

    def bind(self, *buffers: Any, tree: Any) -> Value:
        """The whole array of a tree's buffers."""
        return todense(tree_util.tree_unflatten(tree, buffers))


todense_p = ToDense()
