"""BCOO arrays and their functions."""

from .bcoo_array import BCOO, BCOOProperties, bcoo_fromdense, bcoo_todense
from .layout import _bcoo_extract, _bcoo_fromdense, _bcoo_todense
from .order import bcoo_eliminate_zeros, bcoo_extract, bcoo_sort_indices, bcoo_sum_duplicates
from .products import (
    _bcoo_dot_general,
    bcoo_conv_general_dilated,
    bcoo_dot_general,
    bcoo_dot_general_sampled,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
)
from .relayout import bcoo_transpose, bcoo_update_layout
from .shapes import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_dynamic_slice,
    bcoo_gather,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_squeeze,
)

__all__ = [
    "BCOO", "BCOOProperties", "_bcoo_dot_general", "_bcoo_extract", "_bcoo_fromdense", "_bcoo_todense",
    "bcoo_broadcast_in_dim", "bcoo_concatenate", "bcoo_conv_general_dilated", "bcoo_dot_general", "bcoo_dot_general_sampled",
    "bcoo_dynamic_slice", "bcoo_eliminate_zeros", "bcoo_extract", "bcoo_fromdense", "bcoo_gather", "bcoo_multiply_dense",
    "bcoo_multiply_sparse", "bcoo_reduce_sum", "bcoo_reshape", "bcoo_rev", "bcoo_slice", "bcoo_sort_indices", "bcoo_squeeze",
    "bcoo_sum_duplicates", "bcoo_todense", "bcoo_transpose", "bcoo_update_layout",
]  # fmt: skip
