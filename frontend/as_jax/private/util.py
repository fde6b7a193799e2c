"""`jax._src.util`: lists of equal length."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial as partial
from functools import wraps as wraps
from typing import Any


def safe_map(f: Callable[..., Any], *args: Iterable[Any]) -> list[Any]:
    """`map` as a list; ValueError for arguments of different lengths."""
    return [f(*row) for row in zip(*args, strict=True)]


def safe_zip(*args: Iterable[Any]) -> list[tuple[Any, ...]]:
    """`zip` as a list; ValueError for arguments of different lengths."""
    return list(zip(*args, strict=True))


def split_list(args: Iterable[Any], ns: Iterable[int]) -> list[list[Any]]:
    """The parts of a list of these lengths, and what is left."""
    rest, parts = list(args), []
    for n in ns:
        parts.append(rest[:n])
        rest = rest[n:]
    return [*parts, rest]


def unzip2(xys: Iterable[tuple[Any, Any]]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Pairs to a pair of tuples."""
    pairs = list(xys)
    return tuple(x for x, _ in pairs), tuple(y for _, y in pairs)


def unzip3(xyzs: Iterable[tuple[Any, Any, Any]]) -> tuple[tuple[Any, ...], ...]:
    """Triples to a triple of tuples."""
    triples = list(xyzs)
    return tuple(tuple(t[i] for t in triples) for i in range(3))
