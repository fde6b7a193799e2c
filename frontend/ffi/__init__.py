"""Functions of shared libraries in compiled programs (`jax.ffi`)."""

from ..absent_names import module_getattr

__getattr__ = module_getattr("quire.ffi", globals())
