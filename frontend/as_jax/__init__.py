"""Programs and libraries that import jax run on quire, with JAX not installed.

Three ways, all of which install an import hook (`finder`) that answers `import jax`, `jax.*` and `jaxlib*`:

- ``import quire.as_jax`` as the first import of a program,
- ``python -m quire.as_jax script.py args...`` or ``python -m quire.as_jax -m module args...``,
- ``pytest -p quire.as_jax``.

Modules of JAX that quire has *are* quire's modules: `jax.numpy` is `quire.numpy`, so that classes, registries and pickles
agree. What only libraries need (versions, the private modules that they import) lies in this folder and is named in
`modules.MODULES`. A name that is absent raises ImportError or AttributeError, as libraries that probe expect;
with the environment variable QUIRE_AS_JAX_REPORT=1 the names that were asked for and are absent are listed on stderr when
the process ends. JAX's variables (JAX_ENABLE_X64=1) set quire's options, where quire's own are not set.
"""

from .finder import install, installed

__all__ = ["install", "installed"]

install()
