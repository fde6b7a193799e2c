"""The version of quire: `__version__` and `__version_info__`, as in `jax.version`."""

__version__ = "0.1.0"
__version_info__ = tuple(int(part) for part in __version__.split("."))
