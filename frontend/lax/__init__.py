"""quire.lax: JAX's lax, the primitives with a user's conveniences."""

from . import linalg
from .contraction import (
    ConvDimensionNumbers, Precision, batch_matmul, conv, conv_dimension_numbers, conv_general_dilated,
    conv_general_dilated_local, conv_general_dilated_patches, conv_transpose, conv_with_general_padding, dot,
    dot_general, padtype_to_pads,
)  # fmt: skip
from .control_flow import (
    associative_scan, cond, fori_loop, map, scan, switch, while_loop,
)  # fmt: skip
from .elementwise import (
    RoundingMethod, abs, acos, acosh, add, asin, asinh, atan, atan2, atanh, bessel_i0e, bessel_i1, bessel_i1e,
    betainc, bitcast_convert_type, bitwise_and, bitwise_not, bitwise_or, bitwise_xor, cbrt, ceil, clamp, clz,
    complex, conj, convert_element_type, cos, cosh, digamma, div, eq, erf, erf_inv, erfc, exp, exp2, expm1, floor,
    ge, gt, igamma, igamma_grad_a, igammac, imag, integer_pow, is_finite, le, lgamma, log, log1p, logistic, lt, max,
    min, mul, ne, neg, nextafter, polygamma, population_count, pow, random_gamma_grad, real, reciprocal,
    reduce_precision, rem, round, rsqrt, select, select_n, shift_left, shift_right_arithmetic, shift_right_logical,
    sign, sin, sinh, sqrt, square, stop_gradient, sub, tan, tanh, zeta,
)  # fmt: skip
from .fft import (
    FftType, fft,
)  # fmt: skip
from .indexing import (
    GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers, dynamic_index_in_dim, dynamic_slice,
    dynamic_slice_in_dim, dynamic_update_index_in_dim, dynamic_update_slice, dynamic_update_slice_in_dim, gather,
    scatter, scatter_add, scatter_apply, scatter_max, scatter_min, scatter_mul, scatter_sub,
)  # fmt: skip
from .parallel import (
    all_gather, all_to_all, axis_index, axis_size, pmax, pmean, pmin, ppermute, pshuffle, psum, psum_scatter,
    pswapaxes,
)  # fmt: skip
from .random import (
    RandomAlgorithm, rng_bit_generator, rng_uniform,
)  # fmt: skip
from .reductions import (
    argmax, argmin, cumlogsumexp, cummax, cummin, cumprod, cumsum, reduce, reduce_and, reduce_max, reduce_min,
    reduce_or, reduce_prod, reduce_sum, reduce_window, reduce_xor,
)  # fmt: skip
from .solves import (
    custom_linear_solve, custom_root,
)  # fmt: skip
from .sorting import (
    sort, sort_key_val, top_k,
)  # fmt: skip
from .structural import (
    broadcast, broadcast_in_dim, broadcast_shapes, broadcast_to_rank, broadcasted_iota, collapse, concatenate,
    empty, expand_dims, full, full_like, index_in_dim, iota, optimization_barrier, pad, reshape, rev,
    shape_as_value, slice, slice_in_dim, split, squeeze, tile, transpose, zeros_like_array,
)  # fmt: skip

__all__ = [
    "ConvDimensionNumbers", "FftType", "GatherDimensionNumbers", "GatherScatterMode", "Precision",
    "RandomAlgorithm", "RoundingMethod", "ScatterDimensionNumbers", "abs", "acos", "acosh", "add", "all_gather",
    "all_to_all", "argmax", "argmin", "asin", "asinh", "associative_scan", "atan", "atan2", "atanh", "axis_index",
    "axis_size", "batch_matmul", "bessel_i0e", "bessel_i1", "bessel_i1e", "betainc", "bitcast_convert_type",
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "broadcast", "broadcast_in_dim", "broadcast_shapes",
    "broadcast_to_rank", "broadcasted_iota", "cbrt", "ceil", "clamp", "clz", "collapse", "complex", "concatenate",
    "cond", "conj", "conv", "conv_dimension_numbers", "conv_general_dilated", "conv_general_dilated_local",
    "conv_general_dilated_patches", "conv_transpose", "conv_with_general_padding", "convert_element_type", "cos",
    "cosh", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "custom_linear_solve", "custom_root",
    "digamma", "div", "dot", "dot_general", "dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim",
    "dynamic_update_index_in_dim", "dynamic_update_slice", "dynamic_update_slice_in_dim", "empty", "eq", "erf",
    "erf_inv", "erfc", "exp", "exp2", "expand_dims", "expm1", "fft", "floor", "fori_loop", "full", "full_like",
    "gather", "ge", "gt", "igamma", "igamma_grad_a", "igammac", "imag", "index_in_dim", "integer_pow", "iota",
    "is_finite", "le", "lgamma", "linalg", "log", "log1p", "logistic", "lt", "map", "max", "min", "mul", "ne",
    "neg", "nextafter", "optimization_barrier", "pad", "padtype_to_pads", "pmax", "pmean", "pmin", "polygamma",
    "population_count", "pow", "ppermute", "pshuffle", "psum", "psum_scatter", "pswapaxes", "random_gamma_grad",
    "real", "reciprocal", "reduce", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_precision",
    "reduce_prod", "reduce_sum", "reduce_window", "reduce_xor", "rem", "reshape", "rev", "rng_bit_generator",
    "rng_uniform", "round", "rsqrt", "scan", "scatter", "scatter_add", "scatter_apply", "scatter_max",
    "scatter_min", "scatter_mul", "scatter_sub", "select", "select_n", "shape_as_value", "shift_left",
    "shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sinh", "slice", "slice_in_dim", "sort",
    "sort_key_val", "split", "sqrt", "square", "squeeze", "stop_gradient", "sub", "switch", "tan", "tanh", "tile",
    "top_k", "transpose", "while_loop", "zeros_like_array", "zeta",
]  # fmt: skip
