"""Tracing by the real JAX, of functions that take quire's values: by types alone, under quire's options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.axes import axis_sizes


def require_jax(what: str) -> Any:
    """The module jax. Raises ImportError, with what to install, where it is not."""
    try:
        import jax
    except ImportError as error:
        raise ImportError(f"{what} needs JAX itself, which traces the function: pip install 'quire[jax]'") from error
    return jax


def jax_options(x64: bool) -> Any:
    """A context in which JAX has quire's option for 64-bit dtypes."""
    return require_jax("from_jax").enable_x64(x64)


def key_spec(shape: tuple[int, ...]) -> Any:
    """The type of typed keys for JAX's tracing."""
    import jax

    return jax.ShapeDtypeStruct(shape, jax.eval_shape(jax.random.key, 0).dtype)


def spec_of(aval: Any) -> Any:
    """A type, quire's or JAX's own, for JAX's tracing."""
    import jax

    if not isinstance(aval, ShapedArray):
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def trace_by_jax(f: Callable[..., Any], specs: Sequence[Any], x64: bool) -> tuple[Any, Any]:
    """The closed jaxpr that JAX traces of a function, and the structure of its results (of JAX's pytrees)."""
    import jax

    axes = list(axis_sizes().items())
    with jax_options(x64):
        closed, shapes = jax.make_jaxpr(f, axis_env=axes or None, return_shape=True)(*specs)
    return closed, jax.tree_util.tree_structure(shapes)
