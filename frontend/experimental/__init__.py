"""quire.experimental: modules named as those of `jax.experimental`, imported when first used."""

from ..absent_names import module_getattr
from ..watching.callbacks import io_callback as io_callback
from ..watching.option_contexts import enable_x64 as enable_x64

#: Submodules that are imported when first used.
_LAZY = (
    "array_serialization",
    "checkify",
    "jet",
    "layout",
    "mesh_utils",
    "multihost_utils",
    "ode",
    "pjit",
    "shard_map",
    "sparse",
)
__getattr__ = module_getattr("quire.experimental", globals(), _LAZY)
