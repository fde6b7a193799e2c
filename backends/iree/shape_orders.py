"""Functions of one operand before changes of shape, which is how IREE 3.13 converts StableHLO without losing them.

Its conversion to linalg (`iree-stablehlo-to-iree-input`) applies f to x where it finds `f(transpose(x))`, and the transpose has
no other use: right where it simplifies, but within a conversion it replaces the result of f by the transpose of x. f is
gone, without a word (`floor(x.T)` is `x.T`), or where types differ there is no code. Its own simplification leaves nothing
of this form, but the common subexpressions that are found after it do: where two f of the same transpose become one.
What is exchanged may bring two changes of shape together, which the conversion does not take either ("failed to legalize
operation 'stablehlo.reshape'"): the worker simplifies again, and orders what that leaves.

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import ctypes

import mlir_c

SHAPES = frozenset((b"stablehlo.reshape", b"stablehlo.transpose", b"stablehlo.broadcast"))
"""What IREE's conversion exchanges with a function."""

FUNCTIONS = frozenset(
    b"stablehlo." + name
    for name in (
        b"abs", b"cbrt", b"ceil", b"convert", b"cosine", b"count_leading_zeros", b"exponential", b"exponential_minus_one",
        b"floor", b"imag", b"is_finite", b"log", b"log_plus_one", b"logistic", b"negate", b"not", b"popcnt", b"real",
        b"reduce_precision", b"round_nearest_afz", b"round_nearest_even", b"rsqrt", b"sign", b"sine", b"sqrt", b"tan", b"tanh",
    )
)  # fmt: skip
"""StableHLO's operations of one operand that compute each element from one."""


def order(mlir: mlir_c.Mlir, module: int) -> bool:
    """Apply each function to what a change of shape is of, where that is the change's only use; whether any was."""
    changed = False
    for op in mlir.within(module, FUNCTIONS):
        while shape := _only_for(mlir, op):
            _exchange(mlir, op, shape)
            changed = True
    return changed


def _only_for(mlir: mlir_c.Mlir, op: int) -> int:
    """The change of shape that only this operation uses; 0 if there is none."""
    value = mlir.mlirOperationGetOperand(op, 0)
    if mlir.mlirValueIsABlockArgument(value):
        return 0
    shape = mlir.mlirOpResultGetOwner(value)
    return shape if mlir.name(shape) in SHAPES and len(mlir.uses(value)) == 1 else 0


def _exchange(mlir: mlir_c.Mlir, op: int, shape: int) -> None:
    """`op(shape(x))` becomes `shape(op(x))`."""
    x, out = mlir.mlirOperationGetOperand(shape, 0), mlir.mlirOperationGetResult(op, 0)
    moved, before = mlir.mlirOperationGetResult(shape, 0), mlir.mlirValueGetType(x)
    kind = mlir.mlirValueGetType(out)
    rank = mlir.mlirShapedTypeGetRank(before)
    sizes = (ctypes.c_int64 * rank)(*[mlir.mlirShapedTypeGetDimSize(before, k) for k in range(rank)])
    mlir.mlirValueReplaceAllUsesOfWith(out, moved)
    mlir.mlirValueSetType(moved, kind)
    mlir.mlirOperationMoveBefore(op, shape)
    mlir.mlirOperationSetOperand(op, 0, x)
    mlir.mlirValueSetType(out, mlir.mlirRankedTensorTypeGet(rank, sizes, mlir.mlirShapedTypeGetElementType(kind), None))
    mlir.mlirOperationSetOperand(shape, 0, out)
