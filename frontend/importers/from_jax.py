"""`from_jax`: a jaxpr of the real JAX, or a function that the real JAX traces, as a function of quire's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.axes import axes_key
from quire.ir.config import config
from quire.ir.jaxpr import Jaxpr
from quire.ir.tracing import eval_jaxpr, no_trace, trace_flat

from ..arrays.key_array import THREEFRY, PRNGKeyArray
from ..arrays.operands import as_array
from . import jax_arrays, jax_calls, jax_random  # noqa: F401  (fill the table)
from .counterparts import Context, aval_from, check_counterparts, is_key_aval
from .jax_tracing import key_spec, require_jax, spec_of, trace_by_jax

Value = Any


@dataclass(frozen=True)
class _Imported:
    """A program: quire's jaxpr, whose first inputs are constants, and what its results are."""

    jaxpr: Jaxpr
    captured: list[Any]
    keys: tuple[bool, ...]
    out_tree: Any = None

    def __call__(self, words: Sequence[Value]) -> list[Value]:
        out = eval_jaxpr(self.jaxpr, (), [*self.captured, *words])
        return [PRNGKeyArray(x, THREEFRY) if key else as_array(x) for x, key in zip(out, self.keys)]


def _import(closed: Any, what: str, out_tree: Any = None) -> _Imported:
    check_counterparts(what, closed.jaxpr)
    context = Context()

    def flat(*xs: Value) -> list[Value]:
        return context.evaluate(closed.jaxpr, closed.consts, xs)

    with no_trace():
        jaxpr, captured, _ = trace_flat(flat, [aval_from(a) for a in closed.in_avals], name=f"from_jax of {what}")
    return _Imported(jaxpr, captured, tuple(is_key_aval(a) for a in closed.out_avals), out_tree)


def _is_closed_jaxpr(f: Any) -> bool:
    return hasattr(f, "jaxpr") and hasattr(f, "consts") and hasattr(f, "in_avals")


def from_jax(
    f: Any, *, static_argnums: int | Sequence[int] = (), static_argnames: str | Sequence[str] = ()
) -> Callable[..., Any]:
    """A program of the real JAX as a function of quire's, primitive by primitive.

    Args:
        f: a function that JAX can trace, or a closed jaxpr (`jax.make_jaxpr`), or what has one (``jax.jit(f).trace(...)``).
        static_argnums, static_argnames: arguments of the function that are Python values: each new value is traced anew.
            They must be hashable.

    Returns a function. Of a function it takes and returns the same pytrees (of JAX's registry), with quire's arrays, keys
    and traced values as leaves; JAX traces it for each new signature, and never computes anything. Of a jaxpr it takes
    flat arrays and returns the list of results. It works under quire's `jit`, `grad`, `vmap`, `scan` and `dumpir`, and
    the rules of `jax.custom_jvp`, `jax.custom_vjp` and `custom_vmap` are kept.

    Raises ImportError where JAX is not installed, TypeError for what is neither, and UnsupportedError, when the result is
    called, which names all primitives that have no counterpart, with the user's lines.

    Example: ``quire.jit(quire.grad(quire.from_jax(loss)))(params, batch)``
    """
    require_jax("from_jax")
    if _is_closed_jaxpr(f):
        return _of_jaxpr(f)
    if _is_closed_jaxpr(getattr(f, "jaxpr", None)):
        return _of_jaxpr(f.jaxpr)
    if not callable(f):
        raise TypeError(f"from_jax: expected a function or a closed jaxpr of JAX, got {f!r} of type {type(f).__name__}")
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    return _of_function(f, numbers, names)


def _of_jaxpr(closed: Any) -> Callable[..., list[Value]]:
    imported = _import(closed, "the jaxpr")
    keys = [is_key_aval(a) for a in closed.in_avals]
    want = imported.jaxpr.in_avals[len(imported.captured) :]

    def function(*args: Value) -> list[Value]:
        if len(args) != len(want):
            raise TypeError(f"from_jax: the jaxpr takes {len(want)} arrays, got {len(args)}")
        given: list[Value] = []
        for i, (x, aval, key) in enumerate(zip(args, want, keys)):
            x, got, is_key = _leaf(x)
            if got.shape != aval.shape or key != is_key or not (got.dtype == aval.dtype or got.weak_type):
                raise TypeError(f"from_jax: argument {i} of the jaxpr is {aval.short()}, got {got.short()}")
            given.append(x if got.dtype == aval.dtype else np.asarray(x, aval.dtype)[()])
        return imported(given)

    function.__name__ = function.__qualname__ = "from_jax"
    function.__doc__ = f"The jaxpr of JAX that takes ({', '.join(a.short() for a in want)}) as a function of quire."
    return function


def _leaf(x: Any) -> tuple[Value, ShapedArray, bool]:
    """An argument's leaf as a value of quire's (keys as words), its type, and whether it is of keys."""
    if isinstance(x, PRNGKeyArray):
        return x.base, aval_of(x.base), True
    if is_key_aval(x):
        import jax

        words = np.asarray(jax.random.key_data(x))
        return words, aval_of(words), True
    if type(x).__module__.partition(".")[0] in ("jax", "jaxlib"):
        weak = bool(getattr(x, "weak_type", False))
        x = np.asarray(x)
        if weak and not x.shape:
            x = x.item()
    return x, aval_of(x), False


def _of_function(f: Callable[..., Any], numbers: tuple[int, ...], names: tuple[str, ...]) -> Callable[..., Any]:
    cache: dict[Hashable, _Imported] = {}
    what = getattr(f, "__name__", type(f).__name__)

    def function(*args: Any, **kwargs: Any) -> Any:
        import jax

        fixed = {n % len(args) if -len(args) <= n < len(args) else n for n in numbers}
        static = {i: x for i, x in enumerate(args) if i in fixed}
        static_names = {k: v for k, v in kwargs.items() if k in names}
        dynamic = (
            [x for i, x in enumerate(args) if i not in fixed],
            {k: v for k, v in kwargs.items() if k not in names},
        )
        leaves, tree = jax.tree_util.tree_flatten(dynamic)
        try:
            given = [_leaf(x) for x in leaves]
        except TypeError as error:
            raise TypeError(
                f"from_jax of {what}: an argument holds a value that is no array: {error}. List it in static_argnums or "
                "static_argnames, or register its type with jax.tree_util"
            ) from None
        key = (
            tree, tuple((a, k) for _, a, k in given), tuple(static.items()), tuple(sorted(static_names.items())),
            config.options.trace_key, axes_key(),
        )  # fmt: skip
        found = cache.get(key)
        if found is None:

            def flat(*xs: Any) -> Any:
                positional, named = jax.tree_util.tree_unflatten(tree, xs)
                rest = iter(positional)
                every = [static[i] if i in static else next(rest) for i in range(len(args))]
                return f(*every, **named, **static_names)

            specs = [key_spec(a.shape[:-1]) if k else spec_of(a) for _, a, k in given]
            closed, out_tree = trace_by_jax(flat, specs, config.options.enable_x64)
            found = cache[key] = _import(closed, what, out_tree)
        return jax.tree_util.tree_unflatten(found.out_tree, found([x for x, _, _ in given]))

    functools.update_wrapper(function, f, updated=())
    return function
