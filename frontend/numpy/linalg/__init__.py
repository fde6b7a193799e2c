"""quire.numpy.linalg: linear algebra on matrices in the last two dimensions, as numpy.linalg and jax.numpy.linalg.

Integers become floats; dtypes are float32, float64, complex64 and complex128. All leading dimensions are batches.
Failures (a singular matrix, an iteration that does not converge) are infinities or NaN in the result.
"""

from __future__ import annotations

from ...absent_names import module_getattr
from .decompositions import cholesky, eig, eigh, eigvals, eigvalsh, qr, svd, svdvals
from .norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from .products import cross, diagonal, matmul, matrix_transpose, multi_dot, outer, tensordot, trace, vecdot
from .solutions import det, inv, lstsq, matrix_power, pinv, slogdet, solve, tensorinv, tensorsolve

__all__ = [
    "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matmul",
    "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr",
    "slogdet", "solve", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip

__getattr__ = module_getattr("quire.numpy.linalg", globals())
