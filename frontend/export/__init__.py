"""Programs without Python: folders for C and JavaScript, and JAX's `jax.export`.

quire.export.c(f, x, to="folder")                     # model.h, model.c, kernels, weights: docs/export.md
quire.export.javascript(f, x, to="folder")            # model.mjs, model.wasm, weights
quire.export.export(quire.jit(f))(x).serialize()      # bytes that another process calls
"""

from .folders import Folder as Folder
from .folders import c as c
from .folders import javascript as javascript
from .stored import DisabledSafetyCheck as DisabledSafetyCheck
from .stored import Exported as Exported
from .stored import SymbolicScope as SymbolicScope
from .stored import default_export_platform as default_export_platform
from .stored import deserialize as deserialize
from .stored import export as export
from .stored import is_symbolic_dim as is_symbolic_dim
from .stored import maximum_supported_calling_convention_version as maximum_supported_calling_convention_version
from .stored import minimum_supported_calling_convention_version as minimum_supported_calling_convention_version
from .stored import symbolic_args_specs as symbolic_args_specs
from .stored import symbolic_shape as symbolic_shape
from .trees import register_namedtuple_serialization as register_namedtuple_serialization
from .trees import register_pytree_node_serialization as register_pytree_node_serialization
