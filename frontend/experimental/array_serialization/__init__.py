"""Checkpoints of arrays over several devices and processes (`jax.experimental.array_serialization`)."""

from ...absent_names import module_getattr

#: Submodules that are imported when first used.
_LAZY = ("pytree_serialization",)
__getattr__ = module_getattr("quire.experimental.array_serialization", globals(), _LAZY)
