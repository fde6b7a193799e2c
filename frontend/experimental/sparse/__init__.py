"""Sparse arrays, under the names of `jax.experimental.sparse`: BCOO and BCSR, with batch and dense dimensions, COO, CSR and CSC.

A sparse array is a pytree of its buffers, so that it can be an argument and a result of what is compiled, mapped, scanned or
differentiated. Products gather, multiply and scatter. `sparsify` makes a function of arrays one of sparse arrays.
"""

from __future__ import annotations

from ...absent_names import module_getattr
from . import bcoo as bcoo
from . import bcsr as bcsr
from . import coo as coo
from . import csr as csr
from . import lanes as lanes
from . import linalg as linalg
from . import operators as operators
from . import random as random
from . import transform as transform
from . import util as util
from .ad import grad, jacfwd, jacobian, jacrev, value_and_grad
from .api import empty, eye
from .base import JAXSparse
from .bcoo import (
    BCOO,
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_conv_general_dilated,
    bcoo_dot_general,
    bcoo_dot_general_sampled,
    bcoo_dynamic_slice,
    bcoo_extract,
    bcoo_fromdense,
    bcoo_gather,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_sort_indices,
    bcoo_squeeze,
    bcoo_sum_duplicates,
    bcoo_todense,
    bcoo_transpose,
    bcoo_update_layout,
)
from .bcsr import (
    BCSR,
    bcsr_broadcast_in_dim,
    bcsr_concatenate,
    bcsr_dot_general,
    bcsr_extract,
    bcsr_fromdense,
    bcsr_sum_duplicates,
    bcsr_todense,
)
from .coo import COO, coo_fromdense, coo_matmat, coo_matvec, coo_todense
from .csr import CSC, CSR, csr_fromdense, csr_matmat, csr_matvec, csr_todense
from .random import random_bcoo
from .todense import todense, todense_p
from .transform import SparseTracer, sparsify
from .util import CuSparseEfficiencyWarning, SparseEfficiencyError, SparseEfficiencyWarning

__all__ = [
    "BCOO", "BCSR", "COO", "CSC", "CSR", "CuSparseEfficiencyWarning", "JAXSparse", "SparseEfficiencyError",
    "SparseEfficiencyWarning", "SparseTracer", "bcoo_broadcast_in_dim", "bcoo_concatenate", "bcoo_conv_general_dilated",
    "bcoo_dot_general", "bcoo_dot_general_sampled", "bcoo_dynamic_slice", "bcoo_extract", "bcoo_fromdense", "bcoo_gather",
    "bcoo_multiply_dense", "bcoo_multiply_sparse", "bcoo_reduce_sum", "bcoo_reshape", "bcoo_rev", "bcoo_slice",
    "bcoo_sort_indices", "bcoo_squeeze", "bcoo_sum_duplicates", "bcoo_todense", "bcoo_transpose", "bcoo_update_layout",
    "bcsr_broadcast_in_dim", "bcsr_concatenate", "bcsr_dot_general", "bcsr_extract", "bcsr_fromdense", "bcsr_sum_duplicates",
    "bcsr_todense", "coo_fromdense", "coo_matmat", "coo_matvec", "coo_todense", "csr_fromdense", "csr_matmat", "csr_matvec",
    "csr_todense", "empty", "eye", "grad", "jacfwd", "jacobian", "jacrev", "random_bcoo", "sparsify", "todense", "todense_p",
    "value_and_grad",
]  # fmt: skip

__getattr__ = module_getattr("quire.experimental.sparse", globals())
