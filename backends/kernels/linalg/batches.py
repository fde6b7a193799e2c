"""Emission of one operation for a batch of matrices, and kernels of it: workgroups share the batch.

Matrices of fewer columns than two vectors lie across the lanes, where there are enough of them: all lanes do the same. Larger
ones are computed one by one, in vectors along their rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.dtypes import DType
from quire.ir.primitive import Primitive
from quire.ir.primitives import linalg as la

from ..core.builder import STACK_BYTES, KernelBuilder
from ..core.errors import NoKernel
from ..core.kernel import Kernel, Spec
from ..core.memoized import memoized
from ..core.target import KernelTarget
from ..core.values import Value
from ..elements.memory import Memory
from ..elements.operations import Elements, Expand
from ..lazy.nodes import Array
from . import factors, householder, jacobi, long, singular, tridiagonal
from .matrices import Matrix, Place, Space

Emit = Callable[[Space, Sequence[Matrix], Sequence[Matrix], Mapping[str, Any]], None]


@dataclass(frozen=True)
class Operation:
    """How a primitive is computed.

    Attributes:
        emit: writes it for one matrix of each operand, or one for each lane.
        ranks, out_ranks: how many dimensions of operands and results are those of a matrix (1: a vector).
        largest: the largest matrices; as measured, LAPACK is quicker from there on, called once or in a loop.
        longest: the most rows (or columns) of matrices that have `largest` columns (or rows), where they may be longer.
        weight: operations, in units of the third power of the size.
        copies: how many matrices it keeps in memory of its own.
        banded: its matrices are given by their diagonals; `weight` is that of an element of the solution.
        iterates: goes over a matrix until nothing changes.
    """

    emit: Emit
    ranks: tuple[int, ...]
    out_ranks: tuple[int, ...]
    largest: int
    weight: int = 1
    copies: int = 1
    longest: int = 0
    banded: bool = False
    iterates: bool = False


OPERATIONS: dict[Primitive, Operation] = {
    la.cholesky_p: Operation(factors.cholesky, (2,), (2,), 64),
    la.lu_p: Operation(factors.lu, (2,), (2, 1, 1), 64),
    la.lu_pivots_to_permutation_p: Operation(factors.pivots_to_permutation, (1,), (1,), 64),
    la.triangular_solve_p: Operation(factors.triangular_solve, (2, 2), (2,), 64, copies=2),
    la.geqrf_p: Operation(householder.geqrf, (2,), (2, 1), 32),
    la.householder_product_p: Operation(householder.householder_product, (2, 1), (2,), 32),
    la.qr_p: Operation(householder.qr, (2,), (2, 2), 32, 2, 2, longest=4096),
    la.eigh_p: Operation(jacobi.eigh, (2,), (2, 1), 16, 30, 2, iterates=True),
    la.svd_p: Operation(singular.svd, (2,), (1, 2, 2), 16, 60, 4, longest=4096, iterates=True),
    la.tridiagonal_solve_p: Operation(tridiagonal.tridiagonal_solve, (1, 1, 1, 2), (2,), 4096, 16, banded=True),
}

#: Loops of so few turns are written out, in real algorithms of one pass: others would be long texts.
UNROLLED = 3
#: The least operations that are worth a workgroup of their own.
GROUP_WORK = 1 << 14
#: Lanes are worth it for so many matrices, of a vector's lanes.
LEAST_FULL = 0.5
#: Nanoseconds, as measured: of an operation where Jacobi's rotations go over one matrix after the other; of LAPACK, for a row of
#: a small matrix; of a call from the program into Python.
ROTATION_NS, LAPACK_ROW_NS, CALL_NS = 0.2, 650, 40_000


def stacked(array: Array, rank: int) -> Array:
    """An array (*batch, matrix) as (batch, rows, columns); a vector is a column. Raises NoKernel for several strides."""
    batch = array.shape[: len(array.shape) - rank]
    shape, strides = array.shape[len(batch) :], array.strides[len(batch) :]
    if rank == 1:
        shape, strides = (*shape, 1), (*strides, 1)
    count = math.prod(batch)
    long = [d for d in range(len(batch)) if batch[d] > 1]
    stride = array.strides[long[-1]] if long else 0
    expected = stride
    for d in reversed(long):
        if array.strides[d] != expected:
            raise NoKernel("matrices that lie at several strides")
        expected *= batch[d]
    return Array((count, *shape), array.dtype, array.memory, (stride, *strides), array.base)


def work_of(p: Primitive, arrays: Sequence[Array | ShapedArray]) -> int:
    """The operations of one matrix, roughly, of arrays (batch, rows, columns)."""
    rows, columns = (max(a.shape[d] for a in arrays) for d in (1, 2))
    least, most = sorted((rows, columns))
    if OPERATIONS[p].banded:
        return OPERATIONS[p].weight * rows * columns
    if OPERATIONS[p].longest and most >= long.FACTOR * least:  # a decomposition that leaves a square
        return OPERATIONS[p].weight * least**3 + 6 * most * least**2
    return OPERATIONS[p].weight * rows * columns * least


def checked(p: Primitive, params: Mapping[str, Any], shapes: Sequence[tuple[int, ...]]) -> None:
    """Raises NoKernel for what is not done by kernels: large matrices, pivoted QR, and primitives without an algorithm here."""
    operation = OPERATIONS.get(p)
    if operation is None:
        raise NoKernel(f"{p.name} has no kernel")
    if params.get("pivoting"):
        raise NoKernel("QR decomposition with pivoting has no kernel")
    if params.get("perturb_singular"):
        raise NoKernel("tridiagonal_solve that makes small pivots larger has no kernel")
    sizes = [sorted(shape[len(shape) - rank :]) for shape, rank in zip(shapes, operation.ranks)]
    if operation.longest and not (params["full_matrices"] and params.get("compute_uv", True)):
        ((least, most),) = sizes
        if least <= operation.largest < most <= operation.longest and most >= long.FACTOR * least:
            return
    if max(n for size in sizes for n in size) > operation.largest:
        longer = (
            f", or up to {operation.longest} of one of both where not the full matrices are asked for"
            if operation.longest
            else ""
        )
        raise NoKernel(f"kernels are for matrices of up to {operation.largest} rows and columns{longer}")


def lanes_for(p: Primitive, arrays: Sequence[Array | ShapedArray], target: KernelTarget) -> int:
    """How many matrices are computed at a time; 0: one."""
    real = max(dtypes.real_dtype(a.dtype).itemsize for a in arrays)
    lanes, count = target.lanes(8 * real), arrays[0].shape[0]
    size, columns = (max(n for a in arrays for n in a.shape[first:]) for first in (1, 2))
    if lanes < 4 or count < LEAST_FULL * lanes or columns >= 2 * lanes:
        return 0
    lanes = min(lanes, 1 << (count.bit_length() - 1))
    rows = columns + 5 if OPERATIONS[p].banded else OPERATIONS[p].copies * size + 4
    each = max(a.dtype.itemsize for a in arrays) * rows * size
    while OPERATIONS[p].banded and lanes > 4 and each * lanes > STACK_BYTES:
        lanes //= 2  # one by one each step waits for the one before
    return lanes if each * lanes <= STACK_BYTES else 0


def check_worth(
    p: Primitive, avals: Sequence[ShapedArray], results: Sequence[ShapedArray], target: KernelTarget
) -> None:
    """Raises NoKernel for iterations over matrices one by one that take longer than one call of LAPACK for all of them."""
    operation = OPERATIONS.get(p)
    if operation is None or not operation.iterates:
        return
    arrays = [*zip(avals, operation.ranks), *zip(results, operation.out_ranks)]
    xs = [ShapedArray((math.prod(a.shape[:-k]), *a.shape[-k:], *(1,) * (2 - k)), a.dtype) for a, k in arrays]
    count, size = xs[0].shape[0], min(xs[0].shape[1:])
    if lanes_for(p, xs, target):
        return
    if count * (ROTATION_NS * work_of(p, xs) - LAPACK_ROW_NS * size) > CALL_NS:
        what = f"{count} matrices one by one" if count > 1 else "a matrix of this size"
        raise NoKernel(f"iterations over {what} are slower than a call")


def emit_batch(
    e: Elements, p: Primitive, params: Mapping[str, Any], ins: Sequence[Array], outs: Sequence[Array],
    memory: Callable[[int, DType], Memory], shares: Callable[[int], Any],
) -> int:  # fmt: skip
    """Compute a primitive of arrays (*batch, matrix). Gives how many are computed at a time, across lanes; 0: one.

    `memory`: gives memory of the workgroup's own; `shares(pieces)`: the context of a loop over so many pieces.
    Raises NoKernel.
    """
    operation = OPERATIONS[p]
    checked(p, params, [a.shape for a in ins])
    xs = [stacked(a, rank) for a, rank in zip(ins, operation.ranks)]
    ys = [stacked(a, rank) for a, rank in zip(outs, operation.out_ranks)]
    lanes, count = lanes_for(p, [*xs, *ys], e.b.target), xs[0].shape[0]
    is_short = operation.weight <= 2 and not any(dtypes.is_complex(x.dtype) for x in xs)
    space = Space(e, lanes, memory, UNROLLED if is_short else 1)
    pieces = -(-count // lanes) if lanes else count

    def piece(at: Place) -> None:
        operation.emit(space, [space.within(x, at) for x in xs], [space.within(y, at) for y in ys], params)

    if pieces == 1:
        piece(0)
        return lanes
    with shares(pieces) as number:
        assert isinstance(number, Value)
        piece(e.b.moved_inside(number * lanes, lanes, count) if lanes else number)
    return lanes


@memoized(256)
def _kernel(
    p: Primitive, params: tuple[tuple[str, Any], ...], avals: tuple[ShapedArray, ...], results: tuple[ShapedArray, ...],
    target: KernelTarget, expand: Expand,
) -> Kernel:  # fmt: skip
    b = KernelBuilder(
        p.name, [Spec.of(a.shape, a.dtype) for a in avals], [Spec.of(a.shape, a.dtype) for a in results], target
    )
    e = Elements(b, expand)
    ins = [Array.of(e, i, a) for i, a in enumerate(avals)]
    outs = [Array.of(e, i, a, result=True) for i, a in enumerate(results)]
    stacks = [stacked(a, rank) for a, rank in zip(ins, OPERATIONS[p].ranks)]
    count = stacks[0].shape[0]
    work = work_of(p, stacks) * count
    groups = 1

    def shares(pieces: int) -> Any:
        nonlocal groups
        groups = target.groups(work, GROUP_WORK, pieces)
        return b.distributed(pieces, groups)

    lanes = emit_batch(e, p, dict(params), ins, outs, lambda n, dtype: Memory.on_stack(e, n, dtype), shares)
    each = f"{lanes} at a time across the lanes of vectors" if lanes else "one by one, in vectors along rows"
    what = f"{count} matrices, {each}" if count > 1 else "one matrix, in vectors along rows"
    return b.build((groups,), f"{p.name} of {what}")


def linalg_kernel(
    p: Primitive, params: Mapping[str, Any], avals: Sequence[ShapedArray], results: Sequence[ShapedArray],
    target: KernelTarget, expand: Expand,
) -> Kernel:  # fmt: skip
    """The kernel of a primitive of linear algebra. Raises NoKernel for those that have none, and arrays without elements."""
    if target.kind != "cpu":
        raise NoKernel("kernels of linear algebra are for CPUs")
    checked(p, params, [a.shape for a in avals])
    if any(0 in a.shape for a in (*avals, *results)):
        raise NoKernel("an array has no elements")
    return _kernel(
        p, tuple(params.items()), tuple(a.strong() for a in avals), tuple(a.strong() for a in results), target, expand
    )
