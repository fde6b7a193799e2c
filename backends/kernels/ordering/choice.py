"""sort and top_k for any target: radix and ranks on CPUs, a bitonic network on GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.kernel import Kernel, KernelChain, Spec
from ..core.target import KernelTarget
from . import bitonic, radix_sort, radix_top_k


def sort(
    operands: Sequence[Spec], dimension: int, num_keys: int, target: KernelTarget, *, descending: bool = False
) -> Kernel | KernelChain:
    """Stable sort of ``operands`` (one shape) along ``dimension`` by the first ``num_keys``, in JAX's order.

    The results are as the operands. Raises :class:`NoKernel` for what the target's template does not take.
    """
    template = bitonic if target.kind == "gpu" else radix_sort
    return template.sort(operands, dimension, num_keys, target, descending=descending)


def top_k(operand: Spec, k: int, target: KernelTarget) -> Kernel | KernelChain:
    """The k largest along the last axis and their places (i32), largest first, ties by place.

    Raises :class:`NoKernel` for what the target's template does not take.
    """
    template = bitonic if target.kind == "gpu" else radix_top_k
    return template.top_k(operand, k, target)
