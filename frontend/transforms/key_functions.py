"""Functions that only move elements, on arrays of keys: they see the words as one more mapped dimension at the end."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import tree_util
from ..arrays.key_array import ADVICE, PRNGKeyArray, type_text
from .vectorization import vmap


def lifted(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``f(*args, **kwargs)`` of a function that only moves elements, for arguments that hold keys.

    It sees the keys' words as arrays of the keys' shape, mapped along the last dimension.
    """
    leaves, tree = tree_util.tree_flatten((args, kwargs))
    places = [i for i, x in enumerate(leaves) if isinstance(x, PRNGKeyArray)]

    def of_words(*words: Any) -> Any:
        full = list(leaves)
        for i, w in zip(places, words):
            full[i] = w
        call_args, call_kwargs = tree_util.tree_unflatten(tree, full)
        return f(*call_args, **call_kwargs)

    out = vmap(of_words, in_axes=-1, out_axes=-1)(*(leaves[i].base for i in places))
    impl = leaves[places[0]].impl
    return tree_util.tree_map(lambda words: PRNGKeyArray(words, impl), out)


def takes_keys(f: Callable[..., Any], operands: Sequence[int]) -> Callable[..., Any]:
    """A function that only moves elements, made to take keys too.

    Args:
        operands: the positions of the arguments of which all elements end up in the result: if any is of keys, all are.
    """

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return f(*args, **kwargs)
        except TypeError:
            if not any(isinstance(x, PRNGKeyArray) for x in tree_util.tree_leaves((args, kwargs))):
                raise
        moved = tree_util.tree_leaves([args[i] for i in operands if i < len(args)])
        generators = {x.impl if isinstance(x, PRNGKeyArray) else None for x in moved}
        if None in generators or len(generators) > 1:
            raise TypeError(
                f"{f.__module__.rsplit('.', 1)[0]}.{f.__name__}: keys mix with keys of the same generator only, got dtypes "
                f"{', '.join(type_text(x) for x in moved)}: {ADVICE}"
            )
        if moved and kwargs.get("dtype") == moved[0].dtype:  # their own: nothing is to be converted
            kwargs = {k: v for k, v in kwargs.items() if k != "dtype"}
        return lifted(f, *args, **kwargs)

    return wrapper


def take_keys(namespace: dict[str, Any], operands: Sequence[int], *names: str) -> None:
    """Make functions of a module take keys; see `takes_keys`."""
    for name in names:
        namespace[name] = takes_keys(namespace[name], operands)
