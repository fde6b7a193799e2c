"""Products of complex matrices, as one product of real matrices twice as wide.

A complex number lies in memory as two real ones. With the left operand and the result read as real matrices of twice
the columns, ``m x 2k`` and ``m x 2n``, the right one is ``2k x 2n``: each of its complex rows ``r + i s`` stands for
the two real rows ``r0 s0 r1 s1 ...`` and ``-s0 r0 -s1 r1 ...``. They are made when the strips are packed; all else is the
real product's.
"""

from __future__ import annotations

from ..core.dtypes import DTYPES
from ..core.errors import NoKernel
from ..core.kernel import Kernel, Spec
from ..core.memoized import memoized
from ..core.shapes import row_major
from ..core.target import KernelTarget
from .gemm import Gemm
from .matrices import Product, Strides
from .plans import plan

#: Complex products of fewer real multiplications and additions are left to the compiler.
LEAST_FLOPS = 1 << 13


@memoized(512)
def complex_dot(lhs: Spec, rhs: Spec, target: KernelTarget) -> Kernel:
    """The kernel of ``[b, m, k] @ [b, k, n]`` of complex numbers. Raises :class:`NoKernel`."""
    if target.kind != "cpu":
        raise NoKernel("the contraction kernels are for CPUs")
    (batches, m, k), n = lhs.shape, rhs.shape[2]
    real = DTYPES["f32" if lhs.dtype.name == "c64" else "f64"]
    out = Spec((batches, m, n), lhs.dtype)
    # in real numbers; a step along k is half a complex row of the right operand
    left, right, result = (tuple(2 * s for s in row_major(spec.shape)) for spec in (lhs, rhs, out))
    problem = Product(
        (batches,), m, 2 * n, 2 * k,
        Strides((left[0],), left[1], 1), Strides((right[0],), right[1] // 2, 1), Strides((result[0],), result[1], 1),
    )  # fmt: skip
    what = f"complex {batches} x {m}x{k} @ {k}x{n} {lhs.dtype.name}"
    if problem.flops < LEAST_FLOPS:
        raise NoKernel(f"{what}: fewer than {LEAST_FLOPS} real operations")
    chosen = plan(problem, (False, True), real.nbytes, target)
    return Gemm(problem, real, chosen, target, (lhs, rhs, out), pairs=True).build(f"{what}: {chosen}")
