"""`sparsify`: functions of arrays as functions of sparse arrays, which stay sparse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quire.ir import tracing
from quire.ir.jaxpr import Var
from quire.ir.primitive import Primitive
from quire.ir.tracing import Trace, Tracer, trace_flat

from ... import tree_util
from ...transforms.functions import check_callable, name_of
from ...watching.tracebacks import wraps
from . import control
from .base import JAXSparse
from .rules import apply
from .values import SparsifyEnv, SparsifyValue, arrays_to_spvalues, is_sparse, is_value, spvalues_to_arrays

Value = Any


class SparseTrace(Trace, own=True):
    """A trace that applies rules at once instead of recording: of `sparsify` with ``use_tracer=True``."""

    # The equations of a known program are bound one by one, since each needs its rule.
    inlines = False

    __slots__ = ("env",)

    def __init__(self, env: SparsifyEnv) -> None:
        super().__init__("sparsify", staging=False)
        self.env = env

    def value(self, x: Any) -> SparsifyValue:
        """What a tracer of this trace stands for; other values are arrays."""
        if isinstance(x, SparseTracer) and x.owner is self:
            return x.spvalue
        return self.env.dense(tracing.stand_in(x))

    def bind(self, p: Primitive, args: Sequence[Any], params: Any) -> Any:
        """The results of a primitive, by the rules for sparse operands, in the trace around this one."""
        token = tracing.set_current(self.parent)
        try:
            out = apply(self.env, p, [self.value(x) for x in args], params)
        finally:
            tracing.reset_current(token)
        tracers = [SparseTracer(self, spvalue=v) for v in out]
        return tracers if p.multiple_results else tracers[0]


class SparseTracer(Tracer, own=True):
    """A value within a function that is sparsified with ``use_tracer=True``.

    Args:
        trace: the trace that it belongs to.
        spvalue: what it stands for.
    """

    __slots__ = ("spvalue",)
    spvalue: SparsifyValue

    def __init__(self, trace: SparseTrace, *, spvalue: SparsifyValue) -> None:
        super().__init__(trace, Var(trace.env.aval(spvalue)))
        self.spvalue = spvalue


def _recorded(f: Callable[..., Any], env: SparsifyEnv, values: Any, params: dict[str, Any]) -> tuple[list[Any], Any]:
    """The values of `f`, whose program is recorded for whole arrays, and their tree."""
    flat, tree = tree_util.tree_flatten(values, is_leaf=is_value)
    out_tree: Any = None

    def call(*xs: Any) -> list[Any]:
        nonlocal out_tree
        out, out_tree = tree_util.tree_flatten(f(*tree_util.tree_unflatten(tree, xs), **params), is_leaf=is_sparse)
        if any(is_sparse(x) for x in out):
            raise TypeError("sparsify: the function made a sparse array; make it outside, or use quire.jit")
        return out

    jaxpr, captured, _ = trace_flat(call, [env.aval(v) for v in flat], name=f"sparsify of {name_of(f)}")
    return control.eval_sparse(env, jaxpr, [], [*(env.dense(x) for x in captured), *flat]), out_tree


def _traced(f: Callable[..., Any], env: SparsifyEnv, values: Any, params: dict[str, Any]) -> tuple[list[Any], Any]:
    """The values of `f`, whose operations are applied as they come, and their tree."""
    trace = SparseTrace(env)
    args = tree_util.tree_map(lambda v: SparseTracer(trace, spvalue=v), values, is_leaf=is_value)
    token = tracing.set_current(trace)
    try:
        out = f(*args, **params)
    finally:
        tracing.reset_current(token)
    leaves, tree = tree_util.tree_flatten(out, is_leaf=is_sparse)
    found = [env.value(x) if is_sparse(x) else trace.value(x) for x in leaves]
    trace.close()
    return found, tree


def sparsify_raw(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """`sparsify` on values: ``sparsify_raw(f)(spenv, *spvalues)`` gives the results' values, and their tree."""
    run = _traced if use_tracer else _recorded

    @wraps(f)
    def wrapped(spenv: SparsifyEnv, *spvalues: Any, **params: Any) -> tuple[list[SparsifyValue], Any]:
        return run(f, spenv, spvalues, params)

    return wrapped


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """A function of arrays as one of sparse arrays among them, which computes on the stored elements.

    Operations that keep zeros give sparse arrays; sums and products with arrays are those of `bcoo_dot_general` and the others.

    Args:
        f: a function of arrays and pytrees.
        use_tracer: whether the operations are applied while `f` runs, as in eager code, instead of from its recorded program.
            The results are the same.

    Returns:
        A function that takes BCOO and BCSR arrays wherever `f` takes arrays. Keyword arguments are given to `f` as they are.

    Raises:
        NotImplementedError: when called, an operation has no rule for sparse arrays, or its result would be dense.

    Example:
        >>> import quire.numpy as qnp
        >>> from quire.experimental import sparse
        >>> m = sparse.BCOO.fromdense(qnp.array([[0.0, 2.0], [3.0, 0.0]]))
        >>> sparse.sparsify(lambda m, x: qnp.sin(2 * m).T @ x)(m, qnp.ones(2))
        Array([-0.2794155, -0.7568025], dtype=float32)
    """
    check_callable(f, "sparsify")
    raw = sparsify_raw(f, use_tracer)

    @wraps(f)
    def wrapped(*args: Any, **params: Any) -> Any:
        env = SparsifyEnv()
        out, tree = raw(env, *arrays_to_spvalues(env, args), **params)
        return tree_util.tree_unflatten(tree, spvalues_to_arrays(env, out))

    return wrapped


__all__ = [
    "JAXSparse", "SparseTrace", "SparseTracer", "SparsifyEnv", "SparsifyValue", "arrays_to_spvalues", "sparsify", "sparsify_raw",
    "spvalues_to_arrays",
]  # fmt: skip
