"""Derivatives with respect to sparse arrays: those with respect to their data, in the same places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import numpy as qnp
from ... import tree_util
from ...transforms import differentiation, jacobians
from ...watching.tracebacks import wraps
from .base import JAXSparse
from .values import is_sparse

Value = Any


def _data(x: Any) -> Value:
    return x.data if isinstance(x, JAXSparse) else x


def _with_data(x: JAXSparse, data: Value, lead: tuple[int, ...] = ()) -> JAXSparse:
    """The sparse array with other data, with `lead` more batch dimensions."""
    (_, *others), metadata = x.tree_flatten()  # type: ignore[attr-defined]
    if lead:
        others = [qnp.broadcast_to(o, (*lead, *o.shape)) for o in others]
        metadata = ((*lead, *x.shape), *metadata[1:])
    return type(x).tree_unflatten(metadata, (data, *others))  # type: ignore[attr-defined]


def _of_data(
    transform: Callable[..., Any], fun: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool,
    rebuild: Callable[[Any, Any], Any], pick: Callable[[Any], tuple[Any, Callable[[Any], Any]]], options: dict[str, Any],
) -> Callable[..., Any]:  # fmt: skip
    """A transformation of the function of the data of some arguments, whose derivatives are made sparse again.

    `pick` takes what the transformed function gives apart: the derivatives, and how they are put back.
    """

    @wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        places = [argnums] if isinstance(argnums, int) else list(argnums)
        if any(not -len(args) <= i < len(args) for i in places):
            raise ValueError(f"argnums={argnums} of a function that is given {len(args)} arguments")
        chosen = [args[i] for i in places]
        leaves, tree = tree_util.tree_flatten(chosen, is_leaf=is_sparse)

        def of_data(data: list[Any]) -> Any:
            full = [_with_data(x, d) if is_sparse(x) else d for x, d in zip(leaves, data)]
            given = list(args)
            for i, x in zip(places, tree_util.tree_unflatten(tree, full)):
                given[i] = x
            return fun(*given, **kwargs)

        out = transform(of_data, has_aux=has_aux, **options)([_data(x) for x in leaves])
        found, put_back = pick(out)
        whole = tree_util.tree_unflatten(tree, [rebuild(x, d) for x, d in zip(leaves, found)])
        return put_back(whole[0] if isinstance(argnums, int) else tuple(whole))

    return wrapped


def _same(x: Any, d: Any) -> Any:
    return _with_data(x, d) if is_sparse(x) else d


def value_and_grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """`quire.value_and_grad` of a function of sparse arrays among others.

    The gradient with respect to a sparse array is a sparse array with the same indices. The other arguments are those of
    `quire.value_and_grad`.

    Raises:
        ValueError: when called, `argnums` names no argument.
        TypeError: when called, an argument that is differentiated has no real dtype, or the result is no real number.
    """
    pick = lambda out: (out[1], lambda g: (out[0], g))  # noqa: E731
    return _of_data(differentiation.value_and_grad, fun, argnums, has_aux, _same, pick, kwargs)


def grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """`quire.grad` of a function of sparse arrays among others; see `value_and_grad`.

    Raises:
        ValueError: when called, `argnums` names no argument.
        TypeError: when called, an argument that is differentiated has no real dtype, or the result is no real number.

    Example:
        >>> import quire.numpy as qnp
        >>> from quire.experimental import sparse
        >>> m = sparse.BCOO.fromdense(qnp.array([[0.0, 2.0], [3.0, 0.0]]))
        >>> g = sparse.grad(lambda m, x: ((m @ x) ** 2).sum())(m, qnp.array([1.0, 10.0]))
        >>> g, g.data
        (BCOO(float32[2, 2], nse=2), Array([400.,   6.], dtype=float32))
    """
    pick = (lambda out: (out[0], lambda g: (g, out[1]))) if has_aux else (lambda out: (out, lambda g: g))
    return _of_data(differentiation.grad, fun, argnums, has_aux, _same, pick, kwargs)


def _jacobian(transform: Callable[..., Any]) -> Callable[..., Any]:
    def of(fun: Callable[..., Any], argnums: Any, has_aux: bool, options: dict[str, Any]) -> Callable[..., Any]:
        def rebuild(x: Any, d: Any) -> Any:
            return _with_data(x, d, tuple(d.shape[: d.ndim - x.data.ndim])) if is_sparse(x) else d

        def turned(out: Any) -> Any:
            """The Jacobian of each leaf of the result has a list of the arguments' leaves: as one such list."""
            jacobian = out[0] if has_aux else out
            if not isinstance(jacobian, list):
                raise NotImplementedError("sparse Jacobians of functions whose result is no array")
            return (jacobian, lambda g: (g, out[1])) if has_aux else (jacobian, lambda g: g)

        return _of_data(transform, fun, argnums, has_aux, rebuild, turned, options)

    return of


def jacfwd(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """`quire.jacfwd` of a function of sparse arrays among others, whose result is an array.

    The Jacobian with respect to a sparse array is a sparse array with the result's dimensions as further batch dimensions.

    Raises:
        ValueError: when called, `argnums` names no argument.
        NotImplementedError: when called, the result is no array.
    """
    return _jacobian(jacobians.jacfwd)(fun, argnums, has_aux, kwargs)


def jacrev(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """`quire.jacrev` of a function of sparse arrays among others; see `jacfwd`.

    Raises:
        ValueError: when called, `argnums` names no argument.
        NotImplementedError: when called, the result is no array.
    """
    return _jacobian(jacobians.jacrev)(fun, argnums, has_aux, kwargs)


jacobian = jacrev

__all__ = ["grad", "jacfwd", "jacobian", "jacrev", "value_and_grad"]
