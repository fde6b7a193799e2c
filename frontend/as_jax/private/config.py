"""`jax._src.config`: the options, and the context managers that change one for a block."""

from quire import debug_infs as debug_infs
from quire import debug_nans as debug_nans
from quire import default_device as default_device
from quire import default_matmul_precision as default_matmul_precision
from quire import disable_jit as disable_jit
from quire import enable_x64 as enable_x64
from quire import log_compiles as log_compiles
from quire import numpy_dtype_promotion as numpy_dtype_promotion
from quire import numpy_rank_promotion as numpy_rank_promotion
from quire import threefry_partitionable as threefry_partitionable
from quire.ir.config import Config as Config
from quire.ir.config import config as config
