"""quire.scipy.linalg: SciPy's linear algebra on matrices in the last two dimensions, as jax.scipy.linalg.

Integers become floats; dtypes are float32, float64, complex64 and complex128. All leading dimensions are batches.
"""

from __future__ import annotations

from ...absent_names import module_getattr
from .decompositions import (
    cho_factor,
    cholesky,
    eigh,
    eigh_tridiagonal,
    hessenberg,
    lu,
    lu_factor,
    polar,
    qr,
    qr_multiply,
    rsf2csf,
    schur,
    svd,
)
from .functions import expm, expm_frechet, funm, sqrtm
from .matrices import (
    block_diag,
    circulant,
    companion,
    convolution_matrix,
    dft,
    fiedler,
    fiedler_companion,
    hadamard,
    hankel,
    helmert,
    hilbert,
    invhilbert,
    invpascal,
    leslie,
    pascal,
    toeplitz,
)
from .solutions import cho_solve, det, inv, lu_solve, solve, solve_sylvester, solve_triangular

__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "companion", "convolution_matrix", "det", "dft",
    "eigh", "eigh_tridiagonal", "expm", "expm_frechet", "fiedler", "fiedler_companion", "funm", "hadamard", "hankel",
    "helmert", "hessenberg", "hilbert", "inv", "invhilbert", "invpascal", "leslie", "lu", "lu_factor", "lu_solve",
    "pascal", "polar", "qr", "qr_multiply", "rsf2csf", "schur", "solve", "solve_sylvester", "solve_triangular",
    "sqrtm", "svd", "toeplitz",
]  # fmt: skip

__getattr__ = module_getattr("quire.scipy.linalg", globals())
