"""`jax.version` and `jaxlib.version`: libraries compare these."""

from .modules import JAX_VERSION

__version__ = JAX_VERSION
__version_info__ = tuple(map(int, JAX_VERSION.split(".")))
_version = JAX_VERSION
_minimum_jaxlib_version = JAX_VERSION
_minimum_jaxlib_version_info = __version_info__
