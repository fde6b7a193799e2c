"""Jacobians and Hessians: derivatives along all directions of a basis, mapped over it by `vmap`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.primitives import structural as st
from quire.ir.primitives.elementwise import convert_element_type
from quire.passes.ad.rules import zeros
from quire.runtime.array import from_numpy

from .. import tree_util
from ..arrays.key_array import is_keys
from ..arrays.operands import as_array
from ..watching.tracebacks import wraps
from .differentiation import NO_DERIVATIVE_BY_KEYS, dtype_of, jvp, vjp, with_rest
from .functions import check_callable, name_of, partial_positions
from .vectorization import vmap


def _basis(leaves: Sequence[Any]) -> list[list[Any]]:
    """For each leaf the rows of the identity over all leaves: arrays [n, *shape]."""
    avals = [aval_of(x) for x in leaves]
    total = sum(a.size for a in avals)
    rows: list[Any] = []
    start = 0
    for a in avals:
        block = np.zeros((total, a.size), a.dtype)
        block[start + np.arange(a.size), np.arange(a.size)] = 1
        row: Any = block.reshape(total, *a.shape)
        if aval_of(row).dtype != a.dtype:  # of 64 bits, of a function that enables them within
            row = from_numpy(row, ShapedArray(row.shape, a.dtype))
        rows.append(convert_element_type(row, a.dtype, weak_type=True) if a.weak_type else row)
        start += a.size
    return rows


def _split_last(x: Any, avals: Sequence[ShapedArray], axis: int) -> list[Any]:
    """Cut dimension `axis` of x, which runs over the elements of all avals, into a piece for each."""
    shape = aval_of(x).shape
    pieces: list[Any] = []
    start = 0
    for a in avals:
        lo, hi = [0] * len(shape), list(shape)
        lo[axis], hi[axis] = start, start + a.size
        piece = x if a.size == shape[axis] else st.slice(x, lo, hi)
        pieces.append(st.reshape(piece, (*shape[:axis], *a.shape, *shape[axis + 1 :])))
        start += a.size
    return pieces


def _of_chosen(
    what: str, fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], argnums: int | Sequence[int]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """`fun` as a function of the arguments to differentiate by, and these."""
    positions = partial_positions(argnums, len(args), what)
    return with_rest(fun, args, kwargs, positions), tuple(args[i] for i in positions)


def _without_float0(derivative: Any, shape: tuple[int, ...], like: ShapedArray) -> Any:
    """A derivative, or where it has no elements (dtype float0) the zeros that a Jacobian has of or by integers."""
    if aval_of(derivative).dtype != dtypes.float0:
        return derivative
    return as_array(zeros(ShapedArray(shape, like.dtype, weak_type=like.weak_type)))


def jacfwd(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The Jacobian by forward mode, one column at a time (all batched): good for few inputs.

    The result has the output's tree, each leaf with the argument's tree below it; an array of output shape + input
    shape. That of integers or bools is zeros of their dtype.

    The function that is returned raises TypeError for arguments that are no real numbers (no complex ones with
    `holomorphic`), results that are keys, or, with `holomorphic`, are not complex; and ValueError where the arguments hold
    no arrays.
    """
    what = f"jacfwd of {name_of(fun)}"

    check_callable(fun, "jacfwd")

    @wraps(fun)
    def jacobian_function(*args: Any, **kwargs: Any) -> Any:
        rest, primals = _of_chosen(what, fun, args, kwargs, argnums)
        leaves, tree = tree_util.flatten_arrays(primals)
        for x in tree_util.flatten_arrays(primals, is_keys)[0]:
            _check_jacobian_input("jacfwd", x, holomorphic)
        if not leaves:
            raise ValueError(f"{what}: the arguments to differentiate by must hold arrays, got {primals!r}")

        def push(*tangents: Any) -> Any:
            result = jvp(rest, primals, tree_util.tree_unflatten(tree, tangents), has_aux=has_aux)
            return (result[1], result[0], result[2]) if has_aux else (result[1], result[0])

        found = vmap(push, out_axes=(-1, None, None) if has_aux else (-1, None))(*_basis(leaves))
        for y in tree_util.flatten_arrays(found[1], is_keys)[0]:
            _check_jacobian_output("jacfwd", y, holomorphic)
        avals, out_avals = [aval_of(x) for x in leaves], [aval_of(y) for y in tree_util.flatten_arrays(found[1])[0]]
        columns, out_tree = tree_util.flatten_arrays(found[0])
        n = sum(a.size for a in avals)
        columns = [_without_float0(c, (*a.shape, n), a) for c, a in zip(columns, out_avals, strict=True)]
        rows = [_split_last(c, avals, aval_of(c).ndim - 1) for c in columns]
        jac = _jacobian_tree(rows, out_tree, tree, argnums)
        return (jac, found[2]) if has_aux else jac

    return jacobian_function


def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """The Jacobian by reverse mode, one row at a time (all batched): good for few outputs. See `jacfwd`.

    By integers or bools, with `allow_int`, it is zeros of their dtype. The function that is returned raises TypeError for
    results that are not real (not complex with `holomorphic`), for integers without `allow_int`, and for keys; and
    ValueError for a function that returns no arrays.
    """
    what = f"jacrev of {name_of(fun)}"

    check_callable(fun, "jacrev")

    @wraps(fun)
    def jacobian_function(*args: Any, **kwargs: Any) -> Any:
        rest, primals = _of_chosen(what, fun, args, kwargs, argnums)
        leaves, tree = tree_util.flatten_arrays(primals)
        for x in tree_util.flatten_arrays(primals, is_keys)[0]:
            _check_jacobian_input("jacrev", x, holomorphic, allow_int)
        result = vjp(rest, *primals, has_aux=has_aux)
        out, pullback = result[0], result[1]
        for y in tree_util.flatten_arrays(out, is_keys)[0]:
            _check_jacobian_output("jacrev", y, holomorphic)
        outs, out_tree = tree_util.flatten_arrays(out)
        if not outs:
            raise ValueError(f"{what}: the function must return arrays to differentiate, it returned {out!r}")

        def pull(*cts: Any) -> Any:
            return tree_util.flatten_arrays(pullback(tree_util.tree_unflatten(out_tree, cts)))[0]

        found = vmap(pull)(*_basis(outs))
        avals = [aval_of(y) for y in outs]
        n = sum(a.size for a in avals)
        found = [_without_float0(g, (n, *aval_of(x).shape), aval_of(x)) for g, x in zip(found, leaves, strict=True)]
        by_input = [_split_last(g, avals, 0) for g in found]
        rows = [[by_input[i][o] for i in range(len(leaves))] for o in range(len(outs))]
        jac = _jacobian_tree(rows, out_tree, tree, argnums)
        return (jac, result[2]) if has_aux else jac

    return jacobian_function


jacobian = jacrev


def hessian(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """The Hessian, forward over reverse: ``jacfwd(jacrev(fun))``."""
    return jacfwd(
        jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic),
        argnums,
        has_aux=has_aux,
        holomorphic=holomorphic,
    )


def _jacobian_tree(rows: list[list[Any]], out_tree: Any, in_tree: Any, argnums: int | Sequence[int]) -> Any:
    def below(pieces: list[Any]) -> Any:
        tree = tree_util.tree_unflatten(in_tree, pieces)
        return tree[0] if isinstance(argnums, int) else tree

    return tree_util.tree_unflatten(out_tree, [below(r) for r in rows])


def _check_jacobian_input(what: str, x: Any, holomorphic: bool, allow_int: bool = False) -> None:
    dtype = dtype_of(x)
    if is_keys(x):
        raise TypeError(
            f"{what} requires real- or complex-valued inputs (float or complex dtype), got {dtype}: {NO_DERIVATIVE_BY_KEYS}"
        )
    if holomorphic and not dtypes.is_complex(dtype):
        raise TypeError(f"{what} with holomorphic=True requires inputs with complex dtype, got {dtype}")
    if not holomorphic and dtypes.is_complex(dtype) and what == "jacfwd":
        raise TypeError(
            f"{what} requires real-valued inputs (input dtype that is a sub-dtype of float), got {dtype}. For "
            "holomorphic differentiation, pass holomorphic=True; for functions of complex inputs use quire.jvp"
        )
    if not dtypes.is_inexact(dtype) and not allow_int:
        raise TypeError(f"{what} requires real- or complex-valued inputs (float or complex dtype), got {dtype}")


def _check_jacobian_output(what: str, y: Any, holomorphic: bool) -> None:
    dtype = dtype_of(y)
    if is_keys(y):
        raise TypeError(f"{what}: the function returned an array of keys ({dtype}), which has no derivative")
    if holomorphic and not dtypes.is_complex(dtype):
        raise TypeError(f"{what} with holomorphic=True requires outputs with complex dtype, got {dtype}")
    if not holomorphic and what == "jacrev" and not dtypes.is_float(dtype):
        advice = "For holomorphic differentiation, pass holomorphic=True; for others" if dtypes.is_complex(dtype) else (
            "For functions with integer outputs"
        )  # fmt: skip
        raise TypeError(
            f"{what} requires real-valued outputs (output dtype that is a sub-dtype of float), got {dtype}. {advice} use "
            "quire.vjp"
        )


__all__ = ["hessian", "jacfwd", "jacobian", "jacrev"]
