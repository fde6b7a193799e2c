"""What libraries that extend JAX build on (`jax.extend`): primitives, jaxprs, wrapped functions.

`quire.extend.core` has `Primitive` and the data structures of programs, `quire.interpreters` the tables of rules.
"""

from ..absent_names import module_getattr

#: Submodules, imported when first used.
_LAZY = ("backend", "core", "linear_util", "random", "source_info_util")

__getattr__ = module_getattr("quire.extend", globals(), _LAZY)
