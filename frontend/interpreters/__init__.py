"""Where other packages register what transformations do with their primitives (`jax.interpreters`).

The tables are quire's own: a rule that is registered here is looked up like those of quire's primitives. A primitive of
`quire.extend.core` that has its rules works in compiled functions, derivatives, `vmap`, loops and branches.
"""

from ..absent_names import module_getattr

#: Submodules, imported when first used.
_LAZY = ("ad", "batching", "mlir", "partial_eval", "pxla", "xla")

__getattr__ = module_getattr("quire.interpreters", globals(), _LAZY)
