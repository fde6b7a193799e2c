"""Every pair of operations that move elements: what IREE folds of two is what the two do."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as onp
import pytest

import quire
import quire.numpy as np
from quire import lax

from ..helpers import Case, check

ZERO = onp.float32(0)


def update(x: Any, at: tuple[Any, Any]) -> Any:
    """x put into a larger array of zeros."""
    return lax.dynamic_update_slice(np.zeros((x.shape[0] + 3, x.shape[1] + 2), "float32"), x, at)


MOVES: dict[str, Callable[[Any, Any], Any]] = {
    "pad": lambda x, i: lax.pad(x, ZERO, ((1, 2, 0), (2, 1, 0))),
    "pad within": lambda x, i: lax.pad(x, ZERO, ((0, 0, 1), (0, 0, 2))),
    "pad and crop": lambda x, i: lax.pad(x, ZERO, ((1, -1, 1), (-1, 2, 0))),
    "into zeros": lambda x, i: update(x, (2, 1)),
    "into zeros, somewhere": lambda x, i: update(x, (i, i)),
    "own elements": lambda x, i: lax.dynamic_update_slice(x, x[:1, :2] + 1, (i, 0)),
    "beside zeros": lambda x, i: np.concatenate([np.zeros((2, x.shape[1]), "float32"), x], 0),
    "twice": lambda x, i: np.concatenate([x, np.ones((x.shape[0], 1), "float32"), x], 1),
    "every second": lambda x, i: x[::2, 1::2],
    "reversed": lambda x, i: x[::-1, ::-1],
    "transposed": lambda x, i: x.T,
    "part": lambda x, i: lax.dynamic_slice(x, (i, 0), (x.shape[0] - 1, x.shape[1])),
    "rows": lambda x, i: x[np.array([0, 1, 0]) + i * 0],
    "added rows": lambda x, i: x.at[np.array([0, 1, 0])].add(x[1]),
    "sums": lambda x, i: np.sum(x, 0, keepdims=True) + x,
}


def one_after_the_other(names: tuple[str, ...]) -> Callable[[Any, Any], Any]:
    def f(x: Any, i: Any) -> Any:
        for name in names:
            x = MOVES[name](x, i)
        return [x]

    return f


@pytest.mark.parametrize("first", MOVES)
def test_pairs(first):
    x, i = onp.random.default_rng(0).standard_normal((4, 3)).astype("float32"), onp.int32(1)
    check([Case(second, one_after_the_other((first, second)), [x, i]) for second in MOVES])


WIDENED: dict[str, Callable[[Any, Any], Any]] = {
    "float32": lambda xp, x: x.astype("float32"),
    "scaled": lambda xp, x: x.astype("float32") * 2 + 1,
    "bools": lambda xp, x: (x > 3).astype("int32"),
    "squared": lambda xp, x: x.astype("int16") * x.astype("int16"),
    "of halves": lambda xp, x: (x * 0.5).astype("float32") - 1,
}
MOVED: dict[str, Callable[[Any, Any], Any]] = {
    "every second": lambda xp, x: x[::2],
    "of columns": lambda xp, x: x[..., ::2],
    "of both": lambda xp, x: x[::2, ..., ::3] if x.ndim > 1 else x[1::3],
    "of the transpose": lambda xp, x: x.T[::2],
    "of an inner part": lambda xp, x: x[..., 1:][::2],
    "backwards": lambda xp, x: x[::-2],
    "rows": lambda xp, x: x[onp.array([0, 2, 1])],
    "joined": lambda xp, x: xp.concatenate([x[1:], x[:1]]),
    "padded": lambda xp, x: xp.pad(x, [(1, 2)] + [(0, 0)] * (x.ndim - 1)),
    "flat": lambda xp, x: x.reshape(-1)[::2],
}


@pytest.mark.parametrize("shape", [(4,), (7,), (16,), (4, 6), (3, 3), (5, 4, 6)], ids=str)
def test_what_is_widened_and_then_moved(shape):
    """IREE clones what widens elements into the dispatches that read it: also those that read every second one."""
    x = (onp.arange(onp.prod(shape)).reshape(shape) % 11).astype("int8")

    def every(xp: Any, x: Any) -> list[Any]:
        y = xp.asarray(x).astype("float16")
        pairs = itertools.product(WIDENED.items(), MOVED.values())
        moved = [move(xp, widen(xp, y if name == "of halves" else x)) for (name, widen), move in pairs]
        return [*(v + 1 for v in moved), *(xp.sum(v, 0) for v in moved), *(xp.max(v) for v in moved)]

    for k, (got, want) in enumerate(zip(quire.jit(lambda x: every(np, x))(x), every(onp, x), strict=True)):
        onp.testing.assert_array_equal(got, want, err_msg=str(k))


def test_parts_of_what_is_widened_in_loops_branches_and_derivatives():
    def half(x: Any) -> Any:
        return x.astype("float32")[::2]

    def grow(c: Any) -> Any:
        return c[0] + 1, c[1] + half(c[0])

    def every(x: Any) -> list[Any]:
        y = x.astype("float32") * 2 + 1
        return [
            *lax.scan(lambda c, k: (c + half(x) * k, np.sum(half(x) * c)), np.zeros(4, "float32"), np.arange(3.0)),
            *lax.while_loop(lambda c: np.sum(c[1]) < 40, grow, (x, np.zeros(4, "float32"))),
            lax.cond(x[0] > 2, lambda x: half(x) + 1, lambda x: half(x) * 2, x),
            quire.grad(lambda y: np.sum(np.sin(half(y)) * half(x)))(x.astype("float16")),
            quire.vmap(lambda v: half(v) * 2 + np.sum(v[::2]))(np.stack([x, x * 2])),
            *(y[::2] + y[:4], y[1::2], np.cumsum(y), y),
            np.zeros(7, "float32").at[::2].set(half(x)).at[1::2].add(x.astype("float32")[1::2]),
        ]

    check([Case("every", every, [onp.arange(1, 8, dtype="int8")], rtol=2e-3)])


def test_every_second_pixel_of_an_image():
    """Within a dispatch the whole converted image was to lie on the stack, and no options helped."""
    x = (onp.arange(256 * 256).reshape(256, 256) % 251).astype("uint8")
    got = quire.jit(lambda x: x.astype("float32")[::2, ::2] * 2 + 1)(x)
    onp.testing.assert_array_equal(got, x[::2, ::2].astype("float32") * 2 + 1)


def test_gradients_of_pairs():
    x, i = onp.random.default_rng(0).standard_normal((4, 3)).astype("float32"), onp.int32(1)

    def gradient(f: Any) -> Any:
        return lambda x, i: [quire.grad(lambda x: np.sum(f(x, i)[0] ** 3))(x)]

    kinds = ("pad within", "into zeros", "every second", "rows", "part")
    check(
        [
            Case(" ".join(names), gradient(one_after_the_other(names)), [x, i])
            for names in itertools.product(kinds, kinds)
        ]
    )


def pooled(x: Any, init: float, f: Any, size: int = 3, padding: str = "SAME") -> Any:
    return lax.reduce_window(x, onp.float32(init), f, (size, size), (1, 1), padding)


WINDOWS: dict[str, Callable[[Any], Any]] = {
    "maxima": lambda x: pooled(x, -onp.inf, lax.max),
    "sums": lambda x: pooled(x, 0, lax.add),
    "products": lambda x: pooled(x, 1, lax.mul, 2),
    "sums inside": lambda x: pooled(x, 0, lax.add, 2, "VALID"),
    "pairs": lambda x: lax.reduce_window(
        (x, x * 2), (ZERO, ZERO), lambda a, b: (a[0] + b[0], np.maximum(a[1], b[1])), (2, 2), (1, 1), "SAME"
    )[0],
    "padded": lambda x: np.pad(np.tanh(pooled(np.pad(x, 1), 0, lax.add)), 1)[1:-1, 1:-1],
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_of_windows_of_windows(name):
    """Initial values and padding are alike in all of them: IREE had no code where it made one array of both.

    Each in a module of its own, since equal constants of another would change what IREE makes of it.
    """
    x, f = onp.random.default_rng(0).standard_normal((7, 5)).astype("float32"), WINDOWS[name]
    check([Case(name, lambda x: [f(f(f(x))), f(np.sin(f(x)))], [x], rtol=1e-4, atol=1e-4)])


def test_tangents_of_windows_of_windows():
    x, t = onp.random.default_rng(0).standard_normal((2, 7, 5)).astype("float32")
    for f, init in ((lax.min, onp.inf), (lax.max, -onp.inf)):

        def twice(x, f=f, init=init):
            return pooled(pooled(x, init, f), -onp.inf, lax.max)

        check([Case("tangent", lambda x, t, twice=twice: list(quire.jvp(twice, (x,), (t,))), [x, t])])


LARGER: dict[str, Callable[[Any], Any]] = {
    "padded": lambda y: np.pad(y, 1),
    "padded within": lambda y: lax.pad(y, ZERO, ((0, 0, 1), (1, 0, 0))),
    "beside zeros": lambda y: np.concatenate([np.zeros((2, y.shape[1]), "float32"), y], 0),
    "into zeros": lambda y: update(y, (2, 1)),
    "into ones": lambda y: np.ones((y.shape[0] + 2, y.shape[1]), "float32").at[1:-1].set(y),
}


def test_maxima_of_windows_in_larger_arrays_beside_their_places() -> None:
    """A pool and where its maxima are, for the derivative, are two reductions of windows of one operand and initial value."""
    x = onp.random.default_rng(5).standard_normal((5, 6)).astype("float32")

    def with_derivative(larger: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def f(x: Any) -> Any:
            out, back = quire.vjp(lambda x: larger(pooled(x, -onp.inf, lax.max, 2)), x)
            return out, back(np.ones(out.shape, "float32"))[0]

        return f

    # Each in a module of its own: what IREE takes for one may be in another.
    for name, larger in LARGER.items():
        check([Case(name, with_derivative(larger), [x])])
