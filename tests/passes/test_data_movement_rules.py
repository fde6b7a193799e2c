"""Derivatives and batching of structural, reduction, window, indexing and sorting primitives, against JAX.

Each case is written for both libraries with one function of a namespace: forward and reverse derivatives are compared
with JAX's, second derivatives too, and batching with an explicit loop for every combination of batched operands.
"""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.lax as jl
import numpy as np
import pytest

import quire
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import sorting as so
from quire.ir.primitives import structural as st
from quire.ir.primitives import windows as wd

G, S = ix.GatherDimensionNumbers, ix.ScatterDimensionNumbers


class Ours:
    """The thin functions of all families under one roof."""

    def __getattr__(self, name: str) -> Any:
        for module in (st, rd, wd, ix, so, ew):
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(name)

    def numbers(self, d):
        return d

    def reduce1(self, x, init, f, dims):
        return rd.reduce([x], [init], f, dims)[0]

    def window(self, x, kind, **p):
        return getattr(wd, f"reduce_window_{kind}")(x, **p)

    def sort_all(self, *xs, **p):
        return so.sort(list(xs), **p)

    def take(self, x, i, axis):
        return ix.take_along_axis(x, i, axis)

    def starts(self, x, i, sizes):
        return ix.dynamic_slice(x, i, sizes)

    def update(self, x, u, i):
        return ix.dynamic_update_slice(x, u, i)


class Theirs:
    def __getattr__(self, name: str) -> Any:
        return getattr(jl, name)

    def numbers(self, d):
        return (jl.GatherDimensionNumbers if isinstance(d, G) else jl.ScatterDimensionNumbers)(**asdict(d))

    def reduce1(self, x, init, f, dims):
        return jl.reduce(x, np.asarray(init, x.dtype)[()], f, dims)

    def window(self, x, kind, **p):
        init = {"sum": 0, "max": -np.inf, "min": np.inf}[kind]
        return jl.reduce_window(x, np.asarray(init, x.dtype)[()], getattr(jl, {"sum": "add"}.get(kind, kind)), **p)

    def sort_all(self, *xs, **p):
        return jl.sort(tuple(xs), **p)

    def take(self, x, i, axis):
        return jax.numpy.take_along_axis(x, i, axis, mode="promise_in_bounds")

    def starts(self, x, i, sizes):
        return jl.dynamic_slice(x, i, sizes, allow_negative_indices=False)

    def update(self, x, u, i):
        return jl.dynamic_update_slice(x, u, i, allow_negative_indices=False)


OURS, THEIRS = Ours(), Theirs()
RNG = np.random.default_rng(0)


def r(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def ints(*shape, low=-1, high=4):
    return RNG.integers(low, high, shape).astype(np.int32)


@dataclass
class Rule:
    """`f(library, *args)`; `wrt` are the differentiable arguments."""

    f: Any
    args: tuple[Any, ...]
    wrt: tuple[int, ...] = (0,)
    second: bool = False


POOL = {"window_dimensions": (2, 3), "window_strides": (2, 1), "padding": ((1, 0), (0, 1))}
DILATED = POOL | {"base_dilation": (1, 2), "window_dilation": (2, 1)}
ROWS = (G((1,), (0,), (0,)), S((1,), (0,), (0,)))
zero_in_it = np.array([[1.5, 0.0, 2.0, -1.0], [0.0, 3.0, 0.0, 1.0], [2.0, 1.0, 1.0, 0.5]], np.float32)
tied = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], np.float32)

RULES: dict[str, Rule] = {
    "broadcast_in_dim": Rule(lambda q, x: q.broadcast_in_dim(x, (3, 2, 4), (0, 2)), (r(3, 1),)),
    "reshape": Rule(lambda q, x: q.reshape(x, (6, 2)), (r(3, 4),)),
    "transpose": Rule(lambda q, x: q.transpose(x, (2, 0, 1)), (r(2, 3, 4),)),
    "squeeze": Rule(lambda q, x: q.squeeze(x, (1, 3)), (r(2, 1, 3, 1),)),
    "expand_dims": Rule(lambda q, x: q.expand_dims(x, (0, 2)), (r(2, 3),)),
    "rev": Rule(lambda q, x: q.rev(x, (1,)), (r(2, 3),)),
    "concatenate": Rule(lambda q, x, y: q.concatenate([x, y, x], 1), (r(2, 3), r(2, 2)), (0, 1)),
    "pad": Rule(lambda q, x, v: q.pad(x, v, ((1, -1, 2), (-1, 2, 0))), (r(3, 4), r()), (0, 1)),
    "slice": Rule(lambda q, x: q.slice(x, (1, 0), (6, 4), (2, 3)), (r(7, 4),)),
    "split": Rule(lambda q, x: q.split(x, (1, 3), 1)[1], (r(2, 4),)),
    "tile": Rule(lambda q, x: q.tile(x, (2, 3)), (r(2, 3),)),
    "optimization_barrier": Rule(lambda q, x: q.mul(*_two(q.optimization_barrier, q, x)), (r(3),)),
    "reduce_sum": Rule(lambda q, x: q.reduce_sum(x, (0, 2)), (r(2, 3, 4),)),
    "reduce_prod": Rule(lambda q, x: q.reduce_prod(x, (1,)), (zero_in_it,), second=True),
    "reduce_prod all": Rule(lambda q, x: q.reduce_prod(x, (0, 1)), (r(2, 3),)),
    "reduce_max": Rule(lambda q, x: q.reduce_max(x, (1,)), (tied,)),
    "reduce_min": Rule(lambda q, x: q.reduce_min(x, (0, 1)), (r(3, 4),)),
    "reduce": Rule(lambda q, x: q.reduce1(x, 0.0, lambda a, b: q.add(q.add(a, b), q.mul(a, b)), (0,)), (r(5, 3),)),
    "cumsum": Rule(lambda q, x: q.cumsum(x, 1, True), (r(2, 5),)),
    "cumprod": Rule(lambda q, x: q.cumprod(x, 1), (zero_in_it,), second=True),
    "cumprod reverse": Rule(lambda q, x: q.cumprod(x, 0, True), (r(5, 2),)),
    "cummax": Rule(lambda q, x: q.cummax(x, 1), (r(2, 7),)),
    "cummin": Rule(lambda q, x: q.cummin(x, 0, True), (r(7, 2),)),
    "cumlogsumexp": Rule(lambda q, x: q.cumlogsumexp(x, 0), (r(5, 2),), second=True),
    "argmax": Rule(lambda q, x: q.mul(x, q.convert_element_type(q.argmax(x, 0, np.int32), np.float32)), (r(4),)),
    "window sum": Rule(lambda q, x: q.window(x, "sum", **DILATED), (r(5, 6),)),
    "window max": Rule(lambda q, x: q.window(x, "max", **POOL), (r(5, 6),)),
    "window min": Rule(lambda q, x: q.window(x, "min", **POOL), (r(5, 6),)),
    "gather": Rule(lambda q, x, i: q.gather(x, i, q.numbers(ROWS[0]), (1, 3), mode="fill"), (r(3, 3), ints(5, 1))),
    "gather clip": Rule(
        lambda q, x, i: q.gather(x, i, q.numbers(G((0, 1), (), (1,))), (3, 2), mode="clip"), (r(3, 4), ints(1))
    ),
    "gather batch": Rule(lambda q, x, i: q.take(x, i, 1), (r(3, 4), ints(3, 2, low=0))),
    "scatter": Rule(
        lambda q, x, i, u: q.scatter(x, i, u, q.numbers(ROWS[1]), mode="drop"), (r(4, 3), ints(5, 1), r(5, 3)), (0, 2)
    ),
    "scatter unique": Rule(
        lambda q, x, i, u: q.scatter(x, i, u, q.numbers(ROWS[1]), unique_indices=True),
        (r(4, 3), np.array([[2], [0]], np.int32), r(2, 3)),
        (0, 2),
    ),
    "scatter_add": Rule(
        lambda q, x, i, u: q.scatter_add(x, i, u, q.numbers(ROWS[1]), mode="clip"),
        (r(4, 3), ints(5, 1), r(5, 3)),
        (0, 2),
    ),
    "scatter_sub": Rule(
        lambda q, x, i, u: q.scatter_sub(x, i, u, q.numbers(ROWS[1])), (r(4, 3), ints(5, 1), r(5, 3)), (0, 2)
    ),
    "scatter_mul": Rule(
        lambda q, x, i, u: q.scatter_mul(x, i, u, q.numbers(ROWS[1]), unique_indices=True),
        (r(4, 3), np.array([[2], [0]], np.int32), r(2, 3)),
        (0, 2),
    ),
    "scatter_max": Rule(
        lambda q, x, i, u: q.scatter_max(x, i, u, q.numbers(ROWS[1])), (r(4, 3), ints(5, 1), r(5, 3)), (0, 2)
    ),
    "scatter_min": Rule(
        lambda q, x, i, u: q.scatter_min(x, i, u, q.numbers(ROWS[1])), (r(4, 3), ints(5, 1), r(5, 3)), (0, 2)
    ),
    "dynamic_slice": Rule(lambda q, x, i, j: q.starts(x, (i, j), (2, 3)), (r(4, 5), np.int32(1), np.int32(9))),
    "dynamic_update_slice": Rule(
        lambda q, x, u, i, j: q.update(x, u, (i, j)), (r(4, 5), r(2, 3), np.int32(7), np.int32(1)), (0, 1)
    ),
    "sort": Rule(lambda q, x, y: q.sort_all(x, y, dimension=1, num_keys=1)[1], (r(2, 5), r(2, 5)), (0, 1)),
    "sort keys": Rule(lambda q, x: q.sort_all(x, dimension=0)[0], (r(5, 2),)),
    "top_k": Rule(lambda q, x: q.top_k(x, 3)[0], (r(2, 5),)),
}


def _two(barrier, q, x):
    return barrier(x, q.mul(x, x)) if q is OURS else barrier((x, x * x))


def _partial(rule: Rule, library: Any):
    """The rule's function of its differentiable arguments."""

    def f(*wrt: Any) -> Any:
        args = list(rule.args)
        for i, x in zip(rule.wrt, wrt):
            args[i] = x
        return rule.f(library, *args)

    return f, [rule.args[i] for i in rule.wrt]


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("name", RULES)
def test_derivatives_are_jax_s(name):
    rule = RULES[name]
    (f, primals), (g, _) = _partial(rule, OURS), _partial(rule, THEIRS)
    tangents = [np.asarray(r(*np.shape(p))) for p in primals]
    out, tangent = quire.jvp(f, tuple(primals), tuple(tangents))
    want, want_tangent = jax.jvp(g, tuple(primals), tuple(tangents))
    close(out, want)
    close(tangent, want_tangent)
    ct = r(*np.shape(want))
    for mine, theirs in zip(quire.vjp(f, *primals)[1](ct), jax.vjp(g, *primals)[1](ct), strict=True):
        close(mine, theirs)
    if rule.second:
        close(
            quire.jvp(lambda x: quire.vjp(f, x)[1](ct)[0], (primals[0],), (tangents[0],))[1],
            jax.jvp(lambda x: jax.vjp(g, x)[1](ct)[0], (primals[0],), (tangents[0],))[1],
        )


@pytest.mark.parametrize("name", RULES)
def test_batching_is_a_loop(name):
    rule = RULES[name]
    n = len(rule.args)
    lanes = 3
    for batched in itertools.product((False, True), repeat=n):
        if not any(batched):
            continue
        args, dims = [], []
        for k, (x, b) in enumerate(zip(rule.args, batched)):
            if not b:
                args.append(x)
                dims.append(None)
                continue
            copies = [np.roll(x, i) + np.asarray(i % 2, np.asarray(x).dtype) for i in range(lanes)]
            at = min(k % 2, np.ndim(x))
            args.append(np.stack(copies, at))
            dims.append(at)

        def one(lane, args=args, dims=dims):
            return [a if d is None else np.take(a, lane, d) for a, d in zip(args, dims)]

        got = quire.vmap(lambda *xs: rule.f(OURS, *xs), in_axes=tuple(dims))(*args)
        want = np.stack([np.asarray(rule.f(OURS, *one(i))) for i in range(lanes)])
        close(got, want)


def test_derivative_of_dilated_pooling():
    """JAX has none: against finite differences."""
    x, t = r(5, 6), r(5, 6)
    f = lambda a: wd.reduce_window_max(a, **DILATED)  # noqa: E731
    # Dilation puts -inf between the elements; every window must hold an element.
    _, tangent = quire.jvp(f, (x,), (t,))
    eps = np.float32(1e-3)
    finite = (np.asarray(f(x + eps * t)) - np.asarray(f(x - eps * t))) / (2 * eps)
    where = np.isfinite(finite)
    np.testing.assert_allclose(np.asarray(tangent)[where], finite[where], atol=5e-2)
    ct = r(*finite.shape)
    (back,) = quire.vjp(f, x)[1](ct)
    np.testing.assert_allclose(np.vdot(ct, np.asarray(tangent)), np.vdot(np.asarray(back), t), rtol=1e-4)


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (
            lambda x: ix.scatter_apply(x, np.zeros((1, 1), np.int32), ew.sin, S((), (0,), (0,)), update_shape=(1,)),
            "scatter_apply has no derivative: gather the elements",
        ),
        (
            lambda x: ix.scatter_mul(x, np.zeros((1, 1), np.int32), st.slice(x, (0,), (1,)), S((), (0,), (0,))),
            "scatter_mul: derivatives of the updates need unique_indices=True",
        ),
    ],
)
def test_what_has_no_derivative_says_so(f, text):
    with pytest.raises(NotImplementedError, match=text):
        quire.jvp(f, (r(3),), (r(3),))
