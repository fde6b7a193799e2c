"""What each primitive does where an operand is sparse: the table of `sparsify`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from quire.ir import tracing
from quire.ir.primitive import Primitive

from ... import numpy as qnp
from . import order, products, relayout, shapes
from .bcoo_array import BCOO
from .bcsr import bcsr_broadcast_in_dim, bcsr_concatenate, bcsr_dot_general, bcsr_sum_duplicates
from .bcsr_array import BCSR
from .relayout import full_batch
from .values import SparsifyEnv, SparsifyValue

Value = Any
# Of arrays, sparse ones among them, and the parameters: the array, or arrays, that the primitive gives.
ArrayRule: TypeAlias = Callable[..., Any]
# Of an environment, values and the parameters: the values.
Rule: TypeAlias = Callable[..., list[SparsifyValue]]

_INTENT = "If this is your intent, use sparse.todense() to convert your arguments to dense matrices."
# What commutes with sums: elements of one place need not be summed first.
_LINEAR = "copy imag neg real conj stop_gradient copy_p"
# Of several operands, what is not zero where they are.
_DENSIFIES = frozenset("cumprod eq ge gt le lt ne and or xor".split())

RULES: dict[str, Rule] = {}


def not_implemented(name: str, dense: bool = False) -> NotImplementedError:
    """The error of a primitive without a rule; whether that is because its result would be `dense`."""
    if dense or name in _DENSIFIES:
        return NotImplementedError(
            f"sparse rule for {name} is not implemented because it would result in dense output. {_INTENT}"
        )
    return NotImplementedError(f"sparse rule for {name} is not implemented.")


def _keeps_zeros(p: Primitive, x: Value, params: Mapping[str, Any]) -> bool:
    """Whether a function of one number gives 0 for a 0 of x's dtype."""
    return not np.asarray(tracing.evaluate(p, [np.zeros((), x.dtype)], params))


def apply(
    env: SparsifyEnv, p: Primitive, values: Sequence[SparsifyValue], params: Mapping[str, Any]
) -> list[SparsifyValue]:
    """The values that a primitive gives: by its rule where an operand is sparse. Raises NotImplementedError where there is none."""
    if all(v.is_dense() for v in values):
        out = tracing.bind(p, [env.data(v) for v in values], params)
        return [env.dense(x) for x in (out if p.multiple_results else (out,))]
    if p.name in RULES:
        return RULES[p.name](env, *values, **params)
    alone = p.family == "elementwise" and len(values) == 1
    if alone and _keeps_zeros(p, env.data(values[0]), params):
        return _summed_first(p, env, values[0], **params)
    raise not_implemented(p.name, dense=alone)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Declare a rule on values, which sees what shares its places."""

    def declare(f: Rule) -> Rule:
        for name in names:
            RULES[name] = f
        return f

    return declare


def array_rule(*names: str) -> Callable[[ArrayRule], ArrayRule]:
    """Declare a rule on arrays."""

    def declare(f: ArrayRule) -> ArrayRule:
        def on_values(env: SparsifyEnv, *values: SparsifyValue, **params: Any) -> list[SparsifyValue]:
            return [env.value(f(*(env.array(v) for v in values), **params))]

        for name in names:
            RULES[name] = on_values
        return f

    return declare


def _bcoo(x: Any) -> BCOO:
    return x.to_bcoo() if isinstance(x, BCSR) else x


# -- elementwise ------------------------------------------------------------------------------------------------------


def _same_places(p: Primitive, env: SparsifyEnv, v: SparsifyValue, **params: Any) -> list[SparsifyValue]:
    return [env.with_data(v, tracing.bind(p, (env.data(v),), params))]


def _summed_first(p: Primitive, env: SparsifyEnv, v: SparsifyValue, **params: Any) -> list[SparsifyValue]:
    return _same_places(p, env, unique(env, v), **params)


def unique(env: SparsifyEnv, v: SparsifyValue) -> SparsifyValue:
    """A sparse value with each place listed once."""
    if v.unique_indices:
        return v
    x = env.array(v)
    return env.value(
        bcsr_sum_duplicates(x, nse=x.nse) if isinstance(x, BCSR) else order.bcoo_sum_duplicates(x, nse=x.nse)
    )


@rule("integer_pow")
def _integer_pow(env: SparsifyEnv, v: SparsifyValue, *, y: int, **params: Any) -> list[SparsifyValue]:
    if y <= 0:
        raise NotImplementedError(
            f"sparse rule for integer_pow with non-positive exponent {y} is not implemented because it would result in dense "
            "output. If this is your intent, use sparse.todense() to convert your argument to a dense array."
        )
    from quire.ir.primitives import elementwise as ew

    return _summed_first(ew.integer_pow_p, env, v, y=y, **params)


@rule("mul")
def _mul(env: SparsifyEnv, a: SparsifyValue, b: SparsifyValue, **_: Any) -> list[SparsifyValue]:
    if a.is_sparse() and b.is_sparse():
        if a.indices_ref == b.indices_ref and a.unique_indices and a.shape == b.shape and a.indptr_ref == b.indptr_ref:
            return [env.with_data(a, env.data(a) * env.data(b))]
        return [env.value(products.bcoo_multiply_sparse(_bcoo(env.array(a)), _bcoo(env.array(b))))]
    sparse, dense = (a, b) if a.is_sparse() else (b, a)
    factor = env.data(dense)
    if not dense.shape:
        return [env.with_data(sparse, env.data(sparse) * factor)]
    return [env.with_data(sparse, products.bcoo_multiply_dense(_bcoo(env.array(sparse)), factor))]


@rule("div")
def _div(env: SparsifyEnv, a: SparsifyValue, b: SparsifyValue, **_: Any) -> list[SparsifyValue]:
    if b.is_sparse():
        raise NotImplementedError(
            "Division by a sparse array is not implemented because it would result in dense output. If this is your intent, use "
            "sparse.todense() to convert your arguments to a dense array."
        )
    divisor = env.data(b)
    if b.shape:
        divisor = products.factors(_bcoo(env.array(a)), divisor, fill=1)
    return [env.with_data(a, env.data(a) / divisor)]


@rule("add", "add_any")
def _add(env: SparsifyEnv, a: SparsifyValue, b: SparsifyValue, **_: Any) -> list[SparsifyValue]:
    if a.is_dense() or b.is_dense():
        sparse, dense = (b, a) if a.is_dense() else (a, b)
        if sparse.shape != dense.shape:
            raise NotImplementedError(
                "Addition between a sparse array X and a dense array Y is not implemented when the output shape is larger than "
                "Y.shape. This is to prevent silent densification of a large sparse array. If this is your intent, you can "
                "explicitly cast the sparse array to a dense matrix."
            )
        return [env.dense(env.array(sparse).todense() + env.data(dense))]
    if a.shape != b.shape:
        raise NotImplementedError("Addition between sparse matrices of different shapes.")
    if a.indices_ref == b.indices_ref and a.indptr_ref == b.indptr_ref:
        return [env.with_data(a, env.data(a) + env.data(b))]
    x, y = _bcoo(env.array(a)), _bcoo(env.array(b))
    if (x.n_batch, x.n_dense) != (y.n_batch, y.n_dense):
        raise NotImplementedError("Addition between sparse matrices with different batch/dense dimensions.")
    (x_data, x_at), (y_data, y_at) = full_batch(x), full_batch(y)
    data = qnp.concatenate([x_data, y_data], axis=x.n_batch)
    return [env.value(BCOO((data, qnp.concatenate([x_at, y_at], axis=x.n_batch)), shape=x.shape))]


@rule("sub")
def _sub(env: SparsifyEnv, a: SparsifyValue, b: SparsifyValue, **params: Any) -> list[SparsifyValue]:
    if a.is_dense() or b.is_dense():
        raise NotImplementedError("Subtraction between sparse and dense array.")
    return _add(env, a, env.with_data(b, -env.data(b)), **params)


# -- products and sums ------------------------------------------------------------------------------------------------


@array_rule("dot_general")
def _dot_general(
    lhs: Any, rhs: Any, *, dimension_numbers: Any, preferred_element_type: Any = None, precision: Any = None, **_: Any
) -> Any:
    options = {"dimension_numbers": dimension_numbers, "preferred_element_type": preferred_element_type}
    if isinstance(lhs, BCSR) and not isinstance(rhs, BCOO | BCSR):
        return bcsr_dot_general(lhs, rhs, precision=precision, **options)
    return products.bcoo_dot_general(_bcoo(lhs), _bcoo(rhs), precision=precision, **options)


@array_rule("conv_general_dilated")
def _conv(lhs: Any, rhs: Any, **params: Any) -> BCOO:
    return products.bcoo_conv_general_dilated(_bcoo(lhs), _bcoo(rhs), **params)


@array_rule("reduce_sum")
def _reduce_sum(x: Any, *, axes: Sequence[int], **_: Any) -> Any:
    out = shapes.bcoo_reduce_sum(_bcoo(x), axes=axes)
    return out if out.shape else out.todense()


# -- shapes -----------------------------------------------------------------------------------------------------------


@array_rule("transpose")
def _transpose(x: Any, *, permutation: Sequence[int], **_: Any) -> BCOO:
    return relayout.bcoo_transpose(_bcoo(x), permutation=permutation)


@array_rule("broadcast_in_dim")
def _broadcast_in_dim(x: Any, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], **_: Any) -> Any:
    if isinstance(x, BCSR):
        return bcsr_broadcast_in_dim(x, shape=shape, broadcast_dimensions=broadcast_dimensions)
    return shapes.bcoo_broadcast_in_dim(x, shape=shape, broadcast_dimensions=broadcast_dimensions)


@array_rule("concatenate")
def _concatenate(*operands: Any, dimension: int, **_: Any) -> Any:
    if all(isinstance(x, BCSR) for x in operands):
        return bcsr_concatenate(operands, dimension=dimension)
    if not all(isinstance(x, BCOO | BCSR) for x in operands):
        raise NotImplementedError("Concatenation of sparse and dense arrays.")
    return shapes.bcoo_concatenate([_bcoo(x) for x in operands], dimension=dimension)


@array_rule("reshape")
def _reshape(x: Any, *, new_sizes: Sequence[int], dimensions: Any = None, **_: Any) -> BCOO:
    return shapes.bcoo_reshape(_bcoo(x), new_sizes=new_sizes, dimensions=dimensions)


@array_rule("squeeze")
def _squeeze(x: Any, *, dimensions: Sequence[int], **_: Any) -> BCOO:
    return shapes.bcoo_squeeze(_bcoo(x), dimensions=dimensions)


@array_rule("rev")
def _rev(x: Any, *, dimensions: Sequence[int], **_: Any) -> BCOO:
    return shapes.bcoo_rev(_bcoo(x), dimensions)


@array_rule("slice")
def _slice(x: Any, **params: Any) -> BCOO:
    return shapes.bcoo_slice(_bcoo(x), **params)


@array_rule("dynamic_slice")
def _dynamic_slice(x: Any, *starts: Any, slice_sizes: Sequence[int], **_: Any) -> BCOO:
    if not isinstance(x, BCOO | BCSR):
        raise not_implemented("dynamic_slice")
    return shapes.bcoo_dynamic_slice(_bcoo(x), starts, slice_sizes)


@array_rule("gather")
def _gather(x: Any, at: Any, *, dimension_numbers: Any, slice_sizes: Sequence[int], **_: Any) -> BCOO:
    if not isinstance(x, BCOO | BCSR) or isinstance(at, BCOO | BCSR):
        raise not_implemented("gather")
    return shapes.bcoo_gather(_bcoo(x), at, dimension_numbers, slice_sizes)


def _fill() -> None:
    from quire.ir.primitive import PRIMITIVES

    for name in _LINEAR.split():
        if name in PRIMITIVES:
            RULES[name] = functools.partial(_same_places, PRIMITIVES[name])


_fill()
