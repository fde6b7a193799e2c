"""Operations outside `compile`, on small arrays: what each costs beside its work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Library, Timed, Workload, register, workload


def _operation(
    name: str, f: Callable[[Any, Any, Any], Any], libraries: tuple[str, ...] = ("quire", "jax", "numpy")
) -> None:
    def build(lib: Library) -> Timed:
        x = lib.put(np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8))
        y = lib.put(np.linspace(1, 2, 64, dtype=np.float32).reshape(8, 8))
        return Timed(lambda: f(lib.np, x, y), wait_each=False)

    register(Workload("eager", name, build, libraries))


_operation("x + y", lambda np_, x, y: x + y)
_operation("x + 1", lambda np_, x, y: x + 1)
_operation("sin", lambda np_, x, y: np_.sin(x))
_operation("matmul", lambda np_, x, y: x @ y)
_operation("sum of axis 0", lambda np_, x, y: np_.sum(x, axis=0))
_operation("reshape", lambda np_, x, y: x.reshape(4, 16))
_operation("transpose", lambda np_, x, y: x.T)
_operation("where", lambda np_, x, y: np_.where(x > y, x, y))
_operation("index a row", lambda np_, x, y: x[3])
_operation("slice", lambda np_, x, y: x[1:5, ::2])
_operation("concatenate", lambda np_, x, y: np_.concatenate([x, y]))
_operation("at[].set", lambda np_, x, y: x.at[2].set(0.0), ("quire", "jax"))
_operation("astype", lambda np_, x, y: x.astype("int32"))
_operation("compare", lambda np_, x, y: x < y)


def _hundred(lib: Library) -> Callable[[Any], Any]:
    np_ = lib.np

    def f(x: Any) -> Any:
        for _ in range(25):
            x = np_.sin(x) * 0.5 + x
            x = x - 0.1
        return np_.sum(x)

    return f


@workload("eager", "100 operations")
def hundred(lib: Library) -> Timed:
    x = lib.put(np.linspace(0, 1, 64, dtype=np.float32))
    f = _hundred(lib)
    return Timed(lambda: f(x), wait_each=False)


@workload("eager", "grad of 100 operations")
def grad_of_hundred(lib: Library) -> Timed:
    x = lib.put(np.linspace(0, 1, 64, dtype=np.float32))
    g = lib.grad(_hundred(lib))
    return Timed(lambda: g(x), wait_each=False)


@workload("eager", "16M additions")
def large(lib: Library) -> Timed:
    x = lib.put(np.ones(1 << 24, np.float32))

    def ahead() -> Callable[[], Any]:
        few = x[:4] + x[:4]  # what a library makes ready at its first operation is not part of the additions' memory
        lib.wait(few)
        return lambda: x + x

    return Timed(lambda: x + x, ahead=ahead)
