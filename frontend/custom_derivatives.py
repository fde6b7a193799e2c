"""Functions with derivatives of their own, under JAX's module name."""

from quire.ir.primitives.calls import custom_jvp_call_p, custom_vjp_call_p

from .absent_names import module_getattr
from .transforms.custom_derivatives import (
    CustomVJPPrimal,
    SymbolicZero,
    closure_convert,
    custom_gradient,
    custom_jvp,
    custom_vjp,
    custom_vjp_primal_tree_values,
    zero_from_primal,
)

__all__ = [
    "CustomVJPPrimal", "SymbolicZero", "closure_convert", "custom_gradient", "custom_jvp", "custom_jvp_call_p",
    "custom_vjp", "custom_vjp_call_p", "custom_vjp_primal_tree_values", "zero_from_primal",
]  # fmt: skip

__getattr__ = module_getattr("quire.custom_derivatives", globals())
