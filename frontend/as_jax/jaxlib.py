"""`jaxlib.xla_client` and kin: the classes that libraries compare with; there is no XLA here."""

from quire.compiling.compiled_function import CompiledFunction as PjitFunction
from quire.errors import JaxRuntimeError as JaxRuntimeError
from quire.runtime.array import Array as ArrayImpl
from quire.runtime.devices import Device as Device

from .version import JAX_VERSION

XlaRuntimeError = JaxRuntimeError
_version = JAX_VERSION

__all__ = ["ArrayImpl", "Device", "JaxRuntimeError", "PjitFunction", "XlaRuntimeError"]
