"""sort and top_k for any target: radix and ranks on CPUs, bitonic networks and radix passes on GPUs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..core.errors import NoKernel
from ..core.kernel import EMPTY, Kernel, KernelChain, Spec
from ..core.shapes import Rows
from ..core.target import KernelTarget
from ..elements.keys import keys_of
from . import by_threads, radix_sort, radix_top_k
from .radix_sort import Order


def check(shape: Sequence[int], target: KernelTarget) -> None:
    """Raise :class:`NoKernel` for rows of an array of this shape whose places are no 32-bit numbers."""
    on_gpu = target.kind == "gpu"
    if math.prod(shape) >= 2**30 if on_gpu else max(shape, default=0) >= 2**31:
        raise NoKernel("places are 32-bit")


def sort(
    operands: Sequence[Spec], dimension: int, num_keys: int, target: KernelTarget, *, descending: bool = False
) -> Kernel | KernelChain:
    """Stable sort of ``operands`` (one shape) along ``dimension`` by the first ``num_keys``, in JAX's order.

    The results are as the operands. Ties keep their order, also when ``descending``. Raises :class:`NoKernel`.
    """
    shape = operands[0].shape
    check(shape, target)
    rows = Rows.of(shape, dimension)
    if rows.count * rows.n == 0 or rows.n == 1:
        forward = range(len(operands))
        return Kernel.nothing("sort", operands, operands, forward, "at most one element a row: nothing moves")
    keys = [key for i, spec in enumerate(operands[:num_keys]) for key in keys_of(i, spec.dtype)]
    template = by_threads.sort if target.kind == "gpu" else radix_sort.sort
    return template(operands, rows, keys, target, Order(descending))


def top_k(operand: Spec, k: int, target: KernelTarget) -> Kernel | KernelChain:
    """The k largest along the last axis and their places (i32), largest first, ties by place.

    The results are values ``[..., k]`` (operand's dtype) and places ``i32[..., k]``. Raises :class:`NoKernel`.
    """
    if operand.dtype.kind == "complex":
        raise NoKernel("complex numbers have no order")
    if not operand.shape or not 0 <= k <= operand.shape[-1]:
        raise NoKernel(f"k must be between 0 and the length of the last axis, got {k} for {operand}")
    check(operand.shape, target)
    rows, shape = Rows(math.prod(operand.shape[:-1]), operand.shape[-1], 1), (*operand.shape[:-1], k)
    results = [Spec(shape, operand.dtype), Spec.of(shape, "i32")]
    if results[0].size == 0:
        return Kernel.nothing("top_k", [operand], results, [EMPTY, EMPTY], "no results")
    template = by_threads.top_k if target.kind == "gpu" else radix_top_k.top_k
    return template(operand, results, rows, k, target)
