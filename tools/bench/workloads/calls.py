"""What a repeated call of a compiled function costs beside its work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Library, Timed, workload

SMALL = (4,)


def _call(lib: Library, f: Callable[..., Any], *args: Any) -> Timed:
    compiled = lib.compiled(f)
    given = lib.put(args)
    return Timed(lambda: compiled(*given), wait_each=False)


def _arrays(n: int) -> list[np.ndarray[Any, Any]]:
    return [np.full(SMALL, i, np.float32) for i in range(n)]


@workload("call", "tiny function")
def tiny(lib: Library) -> Timed:
    return _call(lib, lambda x: x + 1, np.float32(1))


@workload("call", "2 scalars")
def scalars(lib: Library) -> Timed:
    return _call(lib, lambda x, y: x * y, np.float32(2), np.float32(3))


@workload("call", "2 arrays")
def two(lib: Library) -> Timed:
    return _call(lib, lambda x, y: x * y + x, *_arrays(2))


@workload("call", "2 arrays and 2 results")
def two_results(lib: Library) -> Timed:
    return _call(lib, lambda x, y: (x * y, x + y), *_arrays(2))


@workload("call", "10 arrays")
def ten(lib: Library) -> Timed:
    return _call(lib, lambda *xs: sum(xs[1:], xs[0]), *_arrays(10))


@workload("call", "100 arrays")
def hundred(lib: Library) -> Timed:
    return _call(lib, lambda *xs: sum(xs[1:], xs[0]), *_arrays(100))


def _nested() -> dict[str, Any]:
    """100 leaves in dicts of dicts of lists."""
    arrays = iter(_arrays(100))
    return {
        f"layer{i}": {"weights": [next(arrays) for _ in range(5)], "bias": {k: next(arrays) for k in "abcde"}}
        for i in range(10)
    }


@workload("call", "nested dict of 100 in, 1 out")
def nested_in(lib: Library) -> Timed:
    def f(tree: Any) -> Any:
        return sum((x for layer in tree.values() for x in layer["weights"]), 0)

    return _call(lib, f, _nested())


@workload("call", "nested dict of 100 in and out")
def nested(lib: Library) -> Timed:
    def f(tree: Any) -> Any:
        return {
            name: {"weights": [w + 1 for w in layer["weights"]], "bias": {k: b * 2 for k, b in layer["bias"].items()}}
            for name, layer in tree.items()
        }

    return _call(lib, f, _nested())


@workload("call", "keyword and static argument")
def keyword(lib: Library) -> Timed:
    compiled = lib.compiled(lambda x, y, n: x * y + n, static_argnames=("n",))
    x, y = lib.put(_arrays(2))
    return Timed(lambda: compiled(x, y=y, n=3), wait_each=False)


@workload("call", "NumPy arrays of 256 KB")
def numpy_arguments(lib: Library) -> Timed:
    compiled = lib.compiled(lambda x: x[:4] + 1)
    # At NumPy's usual address of so large an array; at a multiple of 64 neither library would copy it, by chance.
    memory = np.empty(65536 + 16, np.float32)
    start = (16 - memory.ctypes.data) % 64 // 4
    x = memory[start : start + 65536]
    x[:] = np.arange(65536)
    return Timed(lambda: compiled(x), wait_each=False)
