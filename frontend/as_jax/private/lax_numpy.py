"""`jax._src.numpy.lax_numpy`: the type of scalar types."""

from quire.numpy.dtype_info import ScalarType as _ScalarMeta

__all__ = ["_ScalarMeta"]
