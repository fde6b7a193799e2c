"""The functions a user calls on functions: compile, make_jaxpr, eval_shape."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, overload

from quire.ir.axes import named_axis
from quire.ir.jaxpr import ClosedJaxpr

from .compiled_function import CompiledFunction


@overload
def compile(f: Callable[..., Any], /, **options: Any) -> CompiledFunction: ...
@overload
def compile(**options: Any) -> Callable[[Callable[..., Any]], CompiledFunction]: ...


class Hooks:
    """What lies above this module: compiled functions with checks."""

    checked: Callable[[Callable[..., Any], Any, dict[str, Any]], Any] | None = None


hooks = Hooks()
_LATER: Any = object()


def compile(f: Callable[..., Any] = _LATER, /, **options: Any) -> Any:
    """Compile a function: it is traced at its first call with arguments of some types, and then runs as one program.

    Use as a decorator, with or without arguments, or as a function; `quire.jit` is the same object.

    Args:
        f: a function of arrays, numbers and pytrees of them. Its side effects happen once, when it is traced.
        static_argnums, static_argnames: arguments that are Python values: each new value compiles a variant. They
            must be hashable.
        donate_argnums, donate_argnames: arguments whose memory the results may take; they cannot be used afterwards.
        keep_unused: pass arguments to the program that it does not use.
        inline: inside another compiled function, record the function's equations instead of one `jit` equation.
        in_shardings: how the arguments are divided over devices: a sharding, or a `PartitionSpec` on the mesh in force, or a tree
            prefix of the positional arguments made of these. An array that was put elsewhere is an error, others are moved.
            None: as they lie.
        out_shardings: how the results are divided; None: as it follows from the arguments.
        device, backend: where to run: a device, or the name of a platform (``"cpu"``, ``"vulkan"``, ``"cuda"``).
        max_variants: raise `TooManyVariantsError` when more signatures than this are compiled.
        target: what to compile for, where it is not the device's own: a `quire.plugins.Target`, or the name of one.
        passes: what runs before lowering: a pipeline's text, in which ``default`` stands for the target's own passes
            (``"default,my-pass{n=3}"``), a `quire.plugins.PassManager`, or a sequence of passes. Both count where the function
            is called outside of other compiled functions; within one, the outer one's count. See docs/extending.md.
        compiler_options: options of XLA by name, as JAX's programs give them; none of them changes what IREE compiles.
        tiered: answer the first calls of each signature by the reference backend (NumPy) while the program compiles in
            the background; results may differ by rounding between the two. CPU only; elsewhere calls wait as usual.

        checks: check while the program runs, and raise at the call: True (``assert`` of traced values and
            `checkify.check`, indices outside arrays), ``"all"`` (also NaNs that an operation makes, and divisions by
            zero), or some of ``"assert"``, ``"index"``, ``"nan"``, ``"div"``. Each call waits for its results.

    Returns:
        A `CompiledFunction`, which is called as `f` is; with `checks` a function that calls one (its `compiled`).

    Raises:
        ValueError: `checks` names something else.

    Example:
        >>> import quire
        >>> @quire.compile
        ... def f(x, y):
        ...     return x * y + 1
        >>> float(f(2.0, 3.0))
        7.0
    """
    if f is _LATER:
        return lambda g: compile(g, **options)
    checks = options.pop("checks", None)
    if checks is not None and checks is not False:
        assert hooks.checked is not None, "quire is imported"
        return hooks.checked(f, checks, options)
    return CompiledFunction(f, **options)


jit = compile


def make_jaxpr(
    f: Callable[..., Any], static_argnums: Any = (), axis_env: Sequence[tuple[Any, int]] | None = None,
    return_shape: bool = False, *, static_argnames: Any = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function that returns the jaxpr of `f` for the arguments' types, instead of running it.

    With `return_shape` it returns also the tree of the results' `ShapeDtypeStruct`s. `axis_env` has the names and sizes of
    mapped axes over which `f` has collectives.

    Example:
        >>> import quire
        >>> print(quire.make_jaxpr(lambda x: x * 2.0)(3.0))
        { lambda ; a:f32[]*. let b:f32[]* = mul a 2.0:f32[]* in (b,) }
    """
    function = f if isinstance(f, CompiledFunction) else None
    traced_function = CompiledFunction(
        (lambda *a, **k: f(*a, **k)) if function is not None else f,
        static_argnums=static_argnums or None,
        static_argnames=static_argnames,
    )

    def traced(*args: Any, **kwargs: Any) -> ClosedJaxpr | tuple[ClosedJaxpr, Any]:
        with contextlib.ExitStack() as axes:
            for name, size in axis_env or ():
                axes.enter_context(named_axis(name, size))
            result = traced_function.trace(*args, **kwargs)
        return (result.jaxpr, result.out_info) if return_shape else result.jaxpr

    traced.__name__ = f"make_jaxpr({getattr(f, '__name__', f)})"
    traced.__qualname__ = f"make_jaxpr({getattr(f, '__qualname__', f)})"
    traced.__module__ = "quire"
    return traced


def eval_shape(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes of ``f(*args, **kwargs)`` without computing it.

    Arguments may be arrays or `ShapeDtypeStruct`s; the result is a tree of `ShapeDtypeStruct`s.
    """
    function = f if isinstance(f, CompiledFunction) else CompiledFunction(f)
    return function.eval_shape(*args, **kwargs)


__all__ = ["compile", "eval_shape", "jit", "make_jaxpr"]
