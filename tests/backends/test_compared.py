"""A value equals what was selected from it, wherever the two are computed (`passes/store_compared.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as onp

import quire
import quire.numpy as np
from quire import lax

from ..helpers import Case, check

# Sums whose parts are read elsewhere too, so that a product is rounded by itself in one place and with the sum in another.
SELECTIONS: dict[str, Callable[[Any], Any]] = {
    "max of rows": lambda x: np.sum(np.max(x, 1) * 1.5),
    "max of columns": lambda x: np.sum(np.max(x, 0) * 1.5),
    "min of all": lambda x: np.min(x) * 1.5,
    "largest range": lambda x: np.sum(np.ptp(x, 0)),
    "running max": lambda x: np.sum(lax.cummax(x, axis=0) * 0.5),
    "largest of rows by index": lambda x: np.sum(x.at[::2].max(x[: (x.shape[0] + 1) // 2] * 0.5)),
    "largest of segments": lambda x: np.sum(
        quire.ops.segment_max(x, onp.arange(x.shape[0]) // 2, num_segments=(x.shape[0] + 1) // 2)
    ),
    "beside another": lambda x: np.sum(np.maximum(x, x[::-1])),
}


def gradient(select: Callable[[Any], Any]) -> Callable[..., Any]:
    def loss(a: Any, b: Any, c: Any) -> Any:
        product = a * b
        return select(product + c) + 0.1 * np.sum(product * product)

    return quire.grad(loss, (0, 1, 2))


def in_a_loop(select: Callable[[Any], Any]) -> Callable[..., Any]:
    def loss(a: Any, b: Any, c: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            product = x * b
            return np.tanh(product) + x * 0.5, select(product + c) + np.sum(product * product)

        return np.sum(lax.scan(step, a, None, length=3)[1])

    return quire.grad(loss, (0, 1, 2))


def arguments(i: int, shape: tuple[int, int]) -> list[Any]:
    rng = onp.random.default_rng(i)
    return [rng.standard_normal(shape).astype("float32") for _ in range(3)]


def test_derivatives_of_selections() -> None:
    """Gradients of zero, or NaN, before: the selected element was none of the elements."""
    shapes = ((5, 7), (64, 64), (300, 257))
    check([
        Case(f"{name} {shape}", gradient(select), arguments(31 * i + j, shape), rtol=1e-4, atol=1e-4)
        for i, (name, select) in enumerate(SELECTIONS.items())
        for j, shape in enumerate(shapes)
    ])  # fmt: skip


def test_derivatives_of_selections_in_loops() -> None:
    check([
        Case(name, in_a_loop(select), arguments(1000 + i, (9, 5)), rtol=1e-3, atol=1e-3)
        for i, (name, select) in enumerate(SELECTIONS.items())
    ])  # fmt: skip


def test_elements_are_found_again() -> None:
    """Of each row or column at least one element is the selected one."""
    selected: dict[str, tuple[Callable[[Any], Any], int]] = {
        "largest of rows": (lambda x: np.max(x, 1, keepdims=True), 1),
        "smallest of columns": (lambda x: np.min(x, 0, keepdims=True), 0),
        "third of rows": (lambda x: lax.top_k(x, 3)[0][:, -1:], 1),
        "running max": (lambda x: lax.cummax(x, axis=1), 1),
        "sorted": (lambda x: np.sort(x, 1)[:, :1], 1),
        "whole numbers": (lambda x: np.max(np.floor(x * 3), 1, keepdims=True) / 3, 1),
    }
    for i, (name, (select, axis)) in enumerate(selected.items()):
        for shape in ((5, 7), (64, 64), (300, 257)):

            def f(a: Any, b: Any, c: Any, name: str = name, select: Any = select) -> tuple[Any, Any]:
                product = a * b
                x = product + c
                if name == "whole numbers":
                    x = np.floor(x * 3) / 3
                wanted = select(x)
                return np.where(x == wanted, product * product + 1, 0.0), np.where(x > wanted, product, 0.0)

            found, _ = quire.jit(f)(*arguments(2000 + i, shape))
            assert onp.count_nonzero(onp.asarray(found), axis).min() >= 1, (name, shape)
