"""Checks of derivatives against finite differences, for users' functions and quire's own tests."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of

from . import tree_util
from .transforms.differentiation import jvp, vjp

# The step and the relative tolerance of a central difference, by the precision of the arguments.
_STEP = {2: 5e-2, 4: 5e-3, 8: 1e-5}
_TOLERANCE = {2: 1e-1, 4: 1e-2, 8: 1e-6}


Tolerance = float | Mapping[Any, float] | None
"""A tolerance: one number, or one for each dtype of the arguments."""


def _tolerance(given: Tolerance, leaves: Sequence[Any], default: float) -> float:
    """The tolerance for arguments: of several dtypes the largest that is given for one of them."""
    if given is None:
        return default
    if not isinstance(given, Mapping):
        return given
    by_dtype = {np.dtype(d): tolerance for d, tolerance in given.items()}
    return max((by_dtype[d] for x in leaves if (d := aval_of(x).dtype) in by_dtype), default=default)


def _width(leaves: Sequence[Any]) -> int:
    """The bytes of a real number of the least precise inexact leaf."""
    sizes = [
        a.dtype.itemsize // (2 if dtypes.is_complex(a.dtype) else 1)
        for a in map(aval_of, leaves)
        if dtypes.is_inexact(a.dtype)
    ]
    return min(sizes, default=8)


def _direction(rng: np.random.Generator, x: Any) -> Any:
    """A random tangent of a leaf."""
    aval = aval_of(x)
    if not dtypes.is_inexact(aval.dtype):
        return np.zeros(aval.shape, dtypes.float0)
    t = rng.normal(size=aval.shape)
    if dtypes.is_complex(aval.dtype):
        t = t + 1j * rng.normal(size=aval.shape)
    return np.asarray(t).astype(aval.dtype)


def _wide(x: Any) -> np.ndarray[Any, Any]:
    x = np.asarray(x)
    return x.astype(np.complex128 if dtypes.is_complex(x.dtype) else np.float64)


def _moved(x: Any, t: Any, step: float) -> Any:
    aval = aval_of(x)
    if not dtypes.is_inexact(aval.dtype):
        return x
    return (_wide(x) + step * _wide(t)).astype(aval.dtype)


def _difference(f: Callable[..., Any], leaves: Sequence[Any], tree: Any, ts: Sequence[Any], step: float) -> list[Any]:
    """The central difference of f along a direction, in double precision."""

    def at(sign: int) -> list[Any]:
        args = tree_util.tree_unflatten(tree, [_moved(x, t, sign * step) for x, t in zip(leaves, ts)])
        return [_wide(y) for y in tree_util.tree_leaves(f(*args))]

    # What the arguments really moved by, after rounding.
    moved = [_wide(_moved(x, t, step)) - _wide(_moved(x, t, -step)) for x, t in zip(leaves, ts)]
    wanted = [2 * step * _wide(t) if dtypes.is_inexact(aval_of(x).dtype) else m for x, t, m in zip(leaves, ts, moved)]
    ratio = 1.0
    norm = sum(float(np.vdot(w, w).real) for w in wanted)
    if norm:
        ratio = sum(float(np.vdot(w, m).real) for w, m in zip(wanted, moved)) / norm
    return [(a - b) / (2 * step * ratio) for a, b in zip(at(1), at(-1))]


def _inner(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    """The real inner product in which a cotangent is paired with a tangent: Re(sum x y), without conjugation."""
    return sum(float(np.sum(_wide(x) * _wide(y)).real) for x, y in zip(xs, ys) if np.asarray(x).dtype != dtypes.float0)


def _close(got: Any, want: Any, atol: float, rtol: float, what: str) -> None:
    got, want = np.asarray(got), np.asarray(want)
    scale = float(np.max(np.abs(want), initial=0.0))
    if not np.allclose(_wide(got), want, rtol=rtol, atol=atol + rtol * scale, equal_nan=True):
        raise AssertionError(
            f"{what}: the derivative differs from finite differences by {np.max(np.abs(_wide(got) - want)):.3g} "
            f"(atol {atol}, rtol {rtol}):\n  derivative {got}\n  differences {want}"
        )


def check_jvp(
    f: Callable[..., Any], f_jvp: Callable[..., Any], args: Sequence[Any], atol: Tolerance = None,
    rtol: Tolerance = None, eps: float | None = None, err_msg: str = "",
) -> None:  # fmt: skip
    """Check ``f_jvp(primals, tangents) -> (out, out_tangents)`` against finite differences of f in a random direction.

    Raises AssertionError.
    """
    leaves, tree = tree_util.tree_flatten(tuple(args))
    width = _width(leaves)
    ts = [_direction(np.random.default_rng(0), x) for x in leaves]
    tolerance = _TOLERANCE[width]
    out, out_ts = f_jvp(tuple(args), tree_util.tree_unflatten(tree, ts))
    expected = _difference(f, leaves, tree, ts, _STEP[width] if eps is None else eps)
    values = tree_util.tree_leaves(f(*args))
    for got, want in zip(tree_util.tree_leaves(out), values, strict=True):
        _close(got, _wide(want), 1e-12, 1e-2 * tolerance, err_msg + " value of the jvp")
    for i, (got, want) in enumerate(zip(tree_util.tree_leaves(out_ts), expected, strict=True)):
        if np.asarray(got).dtype != dtypes.float0:
            _close(
                got, want, _tolerance(atol, leaves, tolerance), _tolerance(rtol, leaves, tolerance),
                f"{err_msg} jvp, output {i}",
            )  # fmt: skip


def check_vjp(
    f: Callable[..., Any], f_vjp: Callable[..., Any], args: Sequence[Any], atol: Tolerance = None,
    rtol: Tolerance = None, eps: float | None = None, err_msg: str = "",
) -> None:  # fmt: skip
    """Check ``f_vjp(*args) -> (out, pullback)`` against finite differences: both give the same inner product.

    Raises AssertionError.
    """
    leaves, tree = tree_util.tree_flatten(tuple(args))
    width = _width(leaves)
    rng = np.random.default_rng(0)
    ts = [_direction(rng, x) for x in leaves]
    out, pullback = f_vjp(*args)
    outs, out_tree = tree_util.tree_flatten(out)
    cts = [_direction(rng, y) for y in outs]
    expected = _difference(f, leaves, tree, ts, _STEP[width] if eps is None else eps)
    found = tree_util.tree_leaves(pullback(tree_util.tree_unflatten(out_tree, cts)))
    want = _inner(cts, expected)
    tolerance = _TOLERANCE[width]
    size = sum(float(np.sum(np.abs(_wide(c) * e))) for c, e in zip(cts, expected) if c.dtype != dtypes.float0)
    _close(
        _inner(found, ts), want, _tolerance(atol, leaves, tolerance) * (1 + size),
        _tolerance(rtol, leaves, tolerance), err_msg + " vjp",
    )  # fmt: skip


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
) -> None:
    """Check the derivatives of `f` at `args` up to an order against central finite differences.

    Args:
        f: a function of arrays and pytrees.
        args: its arguments; inexact ones are differentiated. Twice differentiable there for order 2, and so on.
        order: up to which derivative.
        modes: "fwd" and "rev"; all sequences of them are checked.
        atol, rtol: tolerances, or one for each dtype of the arguments; by default those of the arguments' precision.
        eps: the step of the differences.

    Raises:
        AssertionError: a derivative differs; the message holds both values.
        ValueError: `modes` is empty or holds anything but "fwd" and "rev".

    Example:
        >>> import quire.numpy as qnp
        >>> from quire.test_util import check_grads
        >>> check_grads(qnp.sin, (0.5,), order=2)
    """
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    if not modes or not set(modes) <= {"fwd", "rev"}:
        raise ValueError(f"check_grads: modes must be among 'fwd' and 'rev', got {modes!r}")
    args = tuple(args)

    def visit(f: Callable[..., Any], args: tuple[Any, ...], order: int, history: str) -> None:
        if "fwd" in modes:
            f_jvp = functools.partial(jvp, f)
            check_jvp(f, f_jvp, args, atol, rtol, eps, history + "fwd")
            if order > 1:
                leaves, tree = tree_util.tree_flatten(args)
                rng = np.random.default_rng(order)
                tangents = tree_util.tree_unflatten(tree, [_direction(rng, x) for x in leaves])
                visit(lambda *xs: _inexact(jvp(f, xs, tangents)), args, order - 1, history + "fwd of ")
        if "rev" in modes:
            f_vjp = functools.partial(vjp, f)
            check_vjp(f, f_vjp, args, atol, rtol, eps, history + "rev")
            if order > 1:
                outs, out_tree = tree_util.tree_flatten(f(*args))
                rng = np.random.default_rng(order)
                cts = tree_util.tree_unflatten(out_tree, [_direction(rng, y) for y in outs])
                visit(lambda *xs: _inexact(_pulled(f, xs, cts)), args, order - 1, history + "rev of ")

    visit(f, args, order, "")


def _pulled(f: Callable[..., Any], xs: tuple[Any, ...], cts: Any) -> Any:
    out, pullback = vjp(f, *xs)
    return out, pullback(cts)


def _inexact(tree: Any) -> list[Any]:
    """The inexact leaves: what has a derivative in its turn."""
    return [x for x in tree_util.tree_leaves(tree) if dtypes.is_inexact(aval_of(x).dtype)]
