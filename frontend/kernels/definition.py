"""`quire.kernel`: a function over blocks, as a function of arrays that composes with jit, grad and vmap."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from quire.backends.kernels.blocks.building import Lanes
from quire.backends.stablehlo.kernel_calls import call
from quire.backends.stablehlo.lowering import Ctx, lowering
from quire.backends.stablehlo.user_kernels import finished
from quire.backends.targets import get_target
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.errors import KernelError, UnsupportedError
from quire.ir.jaxpr import ClosedJaxpr, Eqn
from quire.ir.primitive import Primitive
from quire.ir.primitives.calls import kernel_call_p
from quire.ir.tracing import no_trace, trace_flat
from quire.passes.foreign import define_lowering

from .. import tree_util
from ..arrays.operands import as_array
from ..arrays.shape_struct import ShapeDtypeStruct
from ..compiling.api import compile as compile_function
from ..compiling.api import eval_shape
from ..interpreters.batching import primitive_batchers
from ..transforms.custom_derivatives import custom_jvp, custom_vjp
from ..transforms.differentiation import jvp as jvp_of
from ..transforms.vectorization import vmap

Options = tuple[tuple[str, Any], ...]

kernel_p = Primitive("kernel")
kernel_p.multiple_results = True


class UserKernel:
    """A kernel: called with arrays, it gives the results. Made by `quire.kernel`.

    Keyword arguments are options: Python values that the kernel's function, the grid and the reference are given too.
    """

    def __init__(
        self, function: Callable[..., None], *, grid: Any, out: Any, reference: Callable[..., Any] | None,
        jvp: Callable[..., Any] | None, vjp: tuple[Callable[..., Any], Callable[..., Any]] | None,
        batch: Callable[..., Any] | None,
    ) -> None:  # fmt: skip
        functools.update_wrapper(self, function)
        self.function = function
        self.reference = reference
        self.name: str = getattr(function, "__name__", "kernel")
        self.batch = batch
        self._grid = grid
        self._out = out
        self._jvp = jvp
        self._vjp = vjp
        self._plan = functools.lru_cache(maxsize=256)(self._plan_for)
        self._differentiable = functools.lru_cache(maxsize=64)(self._with_derivatives)
        self._check_once = functools.lru_cache(maxsize=256)(self._check_for)

    def __repr__(self) -> str:
        return self.name

    def __call__(self, *args: Any, **options: Any) -> Any:
        arrays = [as_array(x) for x in args]
        given = tuple(sorted(options.items()))
        self._check_once(tuple(aval_of(x).strong() for x in arrays), given)
        return self._differentiable(given)(*arrays)

    def check(self, make: Callable[..., Sequence[Any]], **settings: Any) -> Any:
        """Compare the kernel with its reference at random shapes; see `quire.kernels.checking.check`."""
        from .checking import check

        return check(self, make, **settings)

    # -- what follows from shapes

    def results(self, avals: tuple[ShapedArray, ...], options: Options) -> tuple[ShapedArray, ...]:
        """The types of the results for operands of some types."""
        return self._plan(avals, options)[0]

    def grid(self, avals: tuple[ShapedArray, ...], options: Options) -> tuple[int, ...]:
        """How many programs there are, along each axis of the grid."""
        return self._plan(avals, options)[1]

    def _plan_for(self, avals: tuple[ShapedArray, ...], options: Options) -> tuple[Any, tuple[int, ...], Any]:
        types = [ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
        with no_trace():
            if self._out is None:
                if self.reference is None:
                    raise KernelError(f"kernel {self.name}: give out=, the types of the results, or a reference=")
                out = eval_shape(functools.partial(self.reference, **dict(options)), *types)
            else:
                out = self._out(*types, **dict(options)) if callable(self._out) else self._out
        leaves, tree = tree_util.tree_flatten(out)
        grid = self._grid(*types, **dict(options)) if callable(self._grid) else self._grid
        sizes: tuple[Any, ...] = tuple(grid) if isinstance(grid, tuple | list) else (grid,)
        return tuple(ShapedArray(x.shape, x.dtype) for x in leaves), sizes, tree

    def _check_for(self, avals: tuple[ShapedArray, ...], options: Options) -> None:
        """Write the kernel once for the CPU, so that mistakes are errors where it is called."""
        results, grid, _ = self._plan(avals, options)
        try:
            finished(self.name, self.function, options, avals, results, grid, Lanes(), get_target("cpu"))
        except UnsupportedError:  # another target may take it: lowering says
            pass

    # -- derivatives

    def _plain(self, options: Options, *args: Any) -> Any:
        tree = self._plan(tuple(aval_of(x).strong() for x in args), options)[2]
        return tree_util.tree_unflatten(tree, kernel_p.bind(*args, kernel=self, options=options, lanes=Lanes()))

    def _with_derivatives(self, options: Options) -> Callable[..., Any]:
        named = dict(options)

        def run(*args: Any) -> Any:
            return self._plain(options, *args)

        run.__name__ = run.__qualname__ = self.name
        if self._vjp is not None:
            forward, backward = self._vjp
            reverse = custom_vjp(run)
            reverse.defvjp(functools.partial(forward, **named), functools.partial(backward, **named))
            return reverse
        both = custom_jvp(run)

        def rule(primals: Any, tangents: Any) -> Any:
            if self._jvp is not None:
                return self._jvp(primals, tangents, **named)
            if self.reference is None:
                raise TypeError(
                    f"kernel {self.name} has no derivative: give reference=, from which it follows, or jvp=, or vjp="
                )
            return both(*primals), jvp_of(functools.partial(self.reference, **named), primals, tangents)[1]

        both.defjvp(rule)
        return both


def kernel(
    function: Callable[..., None] | None = None, *, grid: Any = 1, out: Any = None,
    reference: Callable[..., Any] | None = None, jvp: Callable[..., Any] | None = None,
    vjp: tuple[Callable[..., Any], Callable[..., Any]] | None = None, batch: Callable[..., Any] | None = None,
) -> Any:  # fmt: skip
    """Make a kernel of a function over blocks (docs/user-kernels.md).

    Args:
        function: ``function(k, *operands, *results, **options)``. It is called while the kernel is written, once for some shapes
            and a target; `k` is a `quire.backends.kernels.blocks.language.Block`, arrays are read and written by
            ``x[i, k.span(start, size)]``. Each program of the grid does what it says, in any order.
        grid: how many programs there are: a number, a tuple, or a function of the operands' types (and options).
        out: the results' types (`ShapeDtypeStruct`, or a tree of them), or a function of the operands' types that gives
            them. Without it those of the reference's results.
        reference: the same function of arrays, made of `quire.numpy` or `quire.lax`: what `check` compares with, and
            what derivatives follow from.
        jvp: ``jvp(primals, tangents, **options)`` gives results and their tangents, as for `custom_jvp`.
        vjp: ``(forward, backward)``, as for `custom_vjp`.
        batch: ``batch(size, batched, *args, **options)`` gives results and, for each, whether it is batched. Without it a
            kernel under `vmap` is one kernel, whose grid has one more dimension.

    Returns:
        A `UserKernel`, which is called with arrays.

    Raises TypeError for a jvp and a vjp at once. A call raises KernelError for a mistake in the kernel.

    Example:
        >>> import quire, quire.numpy as qnp
        >>> @quire.kernel(grid=lambda x: x.shape[0], reference=lambda x: x / qnp.sum(x, 1, keepdims=True))
        ... def shares(k, x, out):
        ...     row = x[k.program_id(), :]
        ...     out[k.program_id(), :] = row / k.sum(row)
        >>> print(shares(qnp.array([[1.0, 3.0], [2.0, 2.0]])))
        [[0.25 0.75]
         [0.5  0.5 ]]
    """
    if jvp is not None and vjp is not None:
        raise TypeError("quire.kernel: give jvp or vjp, not both")

    def made(f: Callable[..., None]) -> UserKernel:
        return UserKernel(f, grid=grid, out=out, reference=reference, jvp=jvp, vjp=vjp, batch=batch)

    return made if function is None else made(function)


# -- the primitive ----------------------------------------------------------------------------------------------------


def _own(avals: Sequence[Any], lanes: Any) -> tuple[ShapedArray, ...]:
    """The types that the kernel's function sees."""
    return tuple(ShapedArray(a.shape[len(lanes.of_operand(i)) :], a.dtype) for i, a in enumerate(avals))


@kernel_p.def_abstract_eval
def _typed(*avals: Any, kernel: UserKernel, options: Options, lanes: Any) -> list[ShapedArray]:
    results = kernel.results(_own(avals, lanes), options)
    return [ShapedArray((*lanes.sizes, *a.shape), a.dtype) for a in results]


@functools.lru_cache(maxsize=256)
def _compiled(kernel: UserKernel, options: Options, lanes: Any) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        return kernel_p.bind(*args, kernel=kernel, options=options, lanes=lanes)

    run.__name__ = run.__qualname__ = kernel.name
    return compile_function(run)


@kernel_p.def_impl
def _evaluated(*args: Any, kernel: UserKernel, options: Options, lanes: Any) -> Any:
    return _compiled(kernel, options, lanes)(*args)


def _batched(
    operands: Sequence[Any], dims: Sequence[int | None], *, kernel: UserKernel, options: Options, lanes: Any
) -> Any:
    from ..numpy import moveaxis

    moved = [x if d is None else moveaxis(x, d, 0) for x, d in zip(operands, dims)]
    has = tuple(d is not None for d in dims)
    size = next(aval_of(x).shape[0] for x, d in zip(moved, dims) if d is not None)
    if kernel.batch is not None:
        results, batched = kernel.batch(size, list(has), *moved, **dict(options))
        out, flags = tree_util.tree_leaves(results), tree_util.tree_leaves(batched)
        return out, [0 if b else None for b in flags]
    more = Lanes((size, *lanes.sizes), (has, *lanes.operands))
    out = kernel_p.bind(*moved, kernel=kernel, options=options, lanes=more)
    return out, [0] * len(out)


primitive_batchers[kernel_p] = _batched


def _reference_of(kernel: UserKernel, options: Options, lanes: Any, avals: Sequence[ShapedArray]) -> ClosedJaxpr | None:
    """The reference as a program, for evaluation without compiled code; None where it captures arrays, or there is none."""
    if kernel.reference is None:
        return None
    f: Callable[..., Any] = functools.partial(kernel.reference, **dict(options))
    for has in reversed(lanes.operands):
        f = vmap(f, in_axes=tuple(0 if h else None for h in has))
    jaxpr, captured, _ = trace_flat(
        lambda *xs: tree_util.tree_leaves(f(*xs)), avals, name=f"the reference of {kernel.name}"
    )
    return None if captured else ClosedJaxpr(jaxpr)


def _lowered(eqn: Eqn, operands: Sequence[Any], target: str) -> Sequence[Any]:
    kernel, options, lanes = (eqn.params[n] for n in ("kernel", "options", "lanes"))
    avals = [a.aval.strong() for a in eqn.inputs]
    own = _own(avals, lanes)
    if math.prod((*lanes.sizes, 1)) == 0:
        raise KernelError(f"kernel {kernel.name}: vmap over no lanes")
    results = kernel.results(own, options)
    made = finished(
        kernel.name, kernel.function, options, own, results, kernel.grid(own, options), lanes, get_target(target)
    )
    return kernel_call_p.bind(
        *operands,
        kernel=made,
        reference=_reference_of(kernel, options, lanes, avals),
        result_avals=tuple(v.aval.strong() for v in eqn.outputs),
    )


define_lowering(kernel_p, _lowered)


@lowering(kernel_p)
def _lowered_late(ctx: Ctx, *operands: Any, kernel: UserKernel, options: Options, lanes: Any) -> Any:
    """Within what another package's primitive is lowered to (`lower_traced`), which is known after programs are expanded."""
    own = _own([a.strong() for a in ctx.avals_in], lanes)
    results, grid = kernel.results(own, options), kernel.grid(own, options)
    made = finished(kernel.name, kernel.function, options, own, results, grid, lanes, ctx.target)
    return call(ctx, made.kernel, operands)


__all__ = ["UserKernel", "kernel", "kernel_p"]
