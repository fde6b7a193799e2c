"""quire.example_libraries: `stax`, neural networks of combined layers, and `optimizers`, as those of JAX."""

from __future__ import annotations

from ..absent_names import module_getattr
from . import optimizers as optimizers
from . import stax as stax

__all__ = ["optimizers", "stax"]

__getattr__ = module_getattr("quire.example_libraries", globals())
