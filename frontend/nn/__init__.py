"""quire.nn: activation functions, normalization, attention, and initializers, as those of jax.nn."""

from __future__ import annotations

from ..absent_names import module_getattr
from . import activations, attention, normalization
from . import initializers as initializers
from .activations import *
from .attention import *
from .normalization import *

__all__ = ["initializers"]
__all__ += activations.__all__
__all__ += attention.__all__
__all__ += normalization.__all__

__getattr__ = module_getattr("quire.nn", globals())
