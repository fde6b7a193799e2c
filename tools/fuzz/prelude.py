"""What the text of a program calls: its source is copied into the scripts that findings print.

The functions take the library (quire or jax) as `api`, and know nothing else of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as onp

Function = Callable[..., Any]


def argument(
    shape: Sequence[int], dtype: str, kind: str, seed: int, lanes: Sequence[tuple[int, int]] = ()
) -> onp.ndarray[Any, Any]:
    """The value of an argument, the same for the same seed; each lane (axis, size) stacks values of other seeds."""
    if lanes:
        axis, size = lanes[-1]
        values = [argument(shape, dtype, kind, seed + 7919 * (i + 1), lanes[:-1]) for i in range(size)]
        return onp.stack(values, axis)
    rng = onp.random.default_rng(seed)
    d = onp.dtype(dtype)
    if kind == "key":
        return rng.integers(0, 2**32, shape, dtype=onp.uint32)
    if kind == "index":  # some of them outside an array of a few rows
        return rng.integers(-4 if d.kind == "i" else 0, 7, shape).astype(d)
    if d.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if d.kind in "iu":
        return rng.integers(-9 if d.kind == "i" else 0, 10, shape).astype(d)
    if kind == "ties":
        return onp.asarray(rng.integers(-2, 3, shape)).astype(d)
    if kind == "special":  # a quarter of the elements, real and imaginary parts apart
        numbers = onp.array([onp.nan, onp.inf, -onp.inf, -0.0, 0.0, 0.5, -1.0])
        parts = [
            onp.where(rng.random(shape) < 0.25, rng.choice(numbers, shape), rng.standard_normal(shape)) for _ in "ri"
        ]
        if d.kind != "c":
            return onp.asarray(parts[0]).astype(d)
        z = onp.empty(shape, d)
        z.real, z.imag = parts
        return z
    x = onp.asarray(rng.uniform(0.5, 2.0, shape) if kind == "positive" else rng.standard_normal(shape))
    if d.kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    if kind == "definite":  # symmetric, eigenvalues in about 0.5..3
        n = max(shape[-1], 1)
        x = x @ onp.conj(onp.swapaxes(x, -1, -2)) / n * 0.5 + 0.5 * onp.eye(n)[: shape[-1], : shape[-1]]
    elif kind == "dominant":  # well-conditioned
        x = 0.3 * x / max(shape[-1], 1) ** 0.5 + onp.eye(shape[-2], shape[-1])
    return x.astype(d)


def weighted_sum(api: Any, outputs: Sequence[Any]) -> Any:
    """A number that depends on each inexact element of the results in another way."""
    np = api.numpy
    total = np.zeros((), "float32")
    for y in outputs:
        if np.issubdtype(y.dtype, np.inexact):
            y = y.astype(np.promote_types(y.dtype, "float32"))
            weights = onp.cos(onp.arange(y.size, dtype="float32")).reshape(y.shape)  # a constant: no code for it
            total = total + np.sum(np.real(y) * weights)
            if np.iscomplexobj(y):
                total = total + np.sum(np.imag(y) * weights)
    return total


def _inexact(api: Any, x: Any) -> bool:
    return bool(api.numpy.issubdtype(x.dtype, api.numpy.inexact))


def _partial(f: Function, xs: Sequence[Any], numbers: Sequence[int]) -> Function:
    """`f` of the arguments of these numbers, the others being given."""

    def g(*ys: Any) -> Any:
        full = list(xs)
        for i, y in zip(numbers, ys):
            full[i] = y
        return f(*full)

    return g


def gradient(api: Any, f: Function, numbers: Sequence[int]) -> Function:
    """The gradients of the weighted sum of the results."""

    def g(*xs: Any) -> Any:
        return api.grad(lambda *ys: weighted_sum(api, f(*ys)), argnums=tuple(numbers))(*xs)

    return g


def value_and_gradient(api: Any, f: Function, numbers: Sequence[int]) -> Function:
    """Integer results, the weighted sum of the inexact ones, and its gradients."""

    def g(*xs: Any) -> Any:
        def h(*ys: Any) -> Any:
            out = f(*ys)
            return weighted_sum(api, out), [y for y in out if not _inexact(api, y)]

        (value, others), grads = api.value_and_grad(h, argnums=tuple(numbers), has_aux=True)(*xs)
        return (value, *others, *grads)

    return g


def pushforward(api: Any, f: Function, numbers: Sequence[int]) -> Function:
    """Results, and the tangents of the inexact ones."""

    def g(*xs: Any) -> Any:
        primals = tuple(xs[i] for i in numbers)
        tangents = tuple((x * 0.5 + 0.25).astype(x.dtype) for x in primals)
        out, moved = api.jvp(lambda *ys: tuple(_partial(f, xs, numbers)(*ys)), primals, tangents)
        return (*out, *(t for y, t in zip(out, moved) if _inexact(api, y)))

    return g


def pullback(api: Any, f: Function, numbers: Sequence[int]) -> Function:
    """Results, and the cotangents of the arguments of these numbers."""

    def g(*xs: Any) -> Any:
        def h(*ys: Any) -> Any:
            out = _partial(f, xs, numbers)(*ys)
            return [y for y in out if _inexact(api, y)], [y for y in out if not _inexact(api, y)]

        out, pull, others = api.vjp(h, *(xs[i] for i in numbers), has_aux=True)
        return (*out, *others, *pull([(0.5 - 0.25 * y).astype(y.dtype) for y in out]))

    return g


class Places:
    """Loops and branches whose carries are references that the body closes over; under JAX the plain ones.

    What is found so is a difference between references and carries, not one of JAX's gaps.
    """

    def __init__(self, api: Any) -> None:
        self.api = api

    def _open(self, values: Sequence[Any]) -> Sequence[Any]:
        return [self.api.new_ref(x) for x in values]

    def _store(self, places: Sequence[Any], values: Sequence[Any]) -> None:
        for place, x in zip(places, values):
            if place.shape and place.shape[0] > 1 and x.dtype != bool:  # in two parts, one of them added
                place[:1] = x[:1]
                place[1:] = x[1:] - x[1:]
                self.api.ref.addupdate(place, slice(1, None), x[1:])
            else:
                place[...] = x

    def scan(self, f: Function, init: Sequence[Any], xs: Any = None, **options: Any) -> Any:
        if self.api.__name__ != "quire":
            return self.api.lax.scan(f, init, xs, **options)
        places = self._open(init)

        def body(_: None, x: Any) -> Any:
            carry, y = f(tuple(p[...] for p in places), x)
            self._store(places, carry)
            return None, y

        _, ys = self.api.lax.scan(body, None, xs, **options)
        return tuple(self.api.freeze(p) for p in places), ys

    def fori_loop(self, lower: int, upper: int, f: Function, init: Sequence[Any]) -> Any:
        if self.api.__name__ != "quire":
            return self.api.lax.fori_loop(lower, upper, f, init)
        places = self._open(init)
        self.api.lax.fori_loop(
            lower, upper, lambda i, _: self._store(places, f(i, tuple(p[...] for p in places))), None
        )
        return tuple(p[...] for p in places)

    def while_loop(self, test: Function, f: Function, init: Sequence[Any]) -> Any:
        if self.api.__name__ != "quire":
            return self.api.lax.while_loop(test, f, init)
        places = self._open(init)

        def body(n: Any) -> Any:
            self._store(places, f(tuple(p[...] for p in places)))
            return n + 1

        self.api.lax.while_loop(lambda _: test(tuple(p[...] for p in places)), body, 0)
        return tuple(p[...] for p in places)

    def cond(self, flag: Any, first: Function, second: Function, *xs: Any) -> Any:
        if self.api.__name__ != "quire":
            return self.api.lax.cond(flag, first, second, *xs)
        leaves, tree = self.api.tree_util.tree_flatten(first(*xs))  # their types
        places = [self.api.empty_ref(x) for x in leaves]

        def branch(f: Function) -> Function:
            return lambda *ys: self._store(places, self.api.tree_util.tree_leaves(f(*ys)))

        self.api.lax.cond(flag, branch(first), branch(second), *xs)
        return self.api.tree_util.tree_unflatten(tree, [p[...] for p in places])
