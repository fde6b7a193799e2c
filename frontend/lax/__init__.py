"""quire.lax: JAX's lax, the primitives with a user's conveniences."""

from quire.ir.primitive import PRIMITIVES

from ..absent_names import module_getattr
from ..transforms.key_functions import take_keys
from . import (
    composites,
    contraction,
    control_flow,
    elementwise,
    indexing,
    linalg,
    parallel,
    prefixes,
    ragged,
    ragged_exchange,
    random,
    reductions,
    shape_rules,
    sharding,
    solves,
    sorting,
    structural,
    tokens,
)
from . import fft as _fft  # its function has the same name
from .composites import *
from .contraction import *
from .control_flow import *
from .elementwise import *
from .fft import *
from .indexing import *
from .parallel import *
from .prefixes import *
from .ragged import *
from .ragged_exchange import *
from .random import *
from .reductions import *
from .shape_rules import *
from .sharding import *
from .solves import *
from .sorting import *
from .structural import *
from .tokens import *

# Each module lists its public names.
__all__ = ["linalg"]
__all__ += composites.__all__
__all__ += contraction.__all__
__all__ += control_flow.__all__
__all__ += elementwise.__all__
__all__ += _fft.__all__
__all__ += indexing.__all__
__all__ += parallel.__all__
__all__ += prefixes.__all__
__all__ += ragged.__all__
__all__ += ragged_exchange.__all__
__all__ += random.__all__
__all__ += reductions.__all__
__all__ += shape_rules.__all__
__all__ += sharding.__all__
__all__ += solves.__all__
__all__ += sorting.__all__
__all__ += structural.__all__
__all__ += tokens.__all__

# Functions that only move elements take typed keys too; the numbers are the arguments whose elements are moved.
take_keys(
    globals(),
    (0,), "broadcast", "broadcast_in_dim", "collapse", "concatenate", "dynamic_index_in_dim", "dynamic_slice",
    "dynamic_slice_in_dim", "expand_dims", "index_in_dim", "reshape", "rev", "slice", "slice_in_dim", "squeeze", "stack",
    "tile", "transpose", "unstack",
)  # fmt: skip
take_keys(globals(), (0, 1), "dynamic_update_index_in_dim", "dynamic_update_slice", "dynamic_update_slice_in_dim")
take_keys(globals(), (1, 2), "select")

# The primitives, under JAX's names: add_p, dot_general_p, scatter_add_p.
globals().update({f"{name.replace('-', '_')}_p": p for name, p in PRIMITIVES.items()})

__getattr__ = module_getattr("quire.lax", globals())
