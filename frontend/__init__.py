"""quire: a compiler for NumPy-style Python.

Functions are traced to jaxprs, transformed by passes, lowered to StableHLO, compiled by IREE and run on CPU, CUDA or
Vulkan. The names and semantics are JAX's.
"""

import os as _os

from quire.ir import source as _source

for _package in ("frontend", "passes", "backends", "runtime"):
    _source.register_internal(_os.path.join(_os.path.dirname(_os.path.dirname(_os.path.abspath(__file__))), _package))
_source.register_internal(_os.path.dirname(_os.path.abspath(__file__)))

from quire.ir.config import config  # noqa: E402
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr  # noqa: E402
from quire.runtime.array import Array  # noqa: E402
from quire.runtime.devices import Device, device_count, devices, local_devices  # noqa: E402

from . import eager as _eager  # noqa: E402, F401
from .aot import ShapeDtypeStruct  # noqa: E402
from . import operators as _operators  # noqa: E402, F401
from .api import block_until_ready, compile, device_get, device_put, eval_shape, jit, make_jaxpr  # noqa: E402

__version__ = "0.1.0"

__all__ = [
    "Array", "ClosedJaxpr", "Device", "Jaxpr", "ShapeDtypeStruct", "block_until_ready", "compile", "config",
    "device_count", "device_get", "device_put", "devices", "eval_shape", "jit", "local_devices", "make_jaxpr",
]  # fmt: skip
