"""quire.backends.stablehlo: each primitive lowered to StableHLO, with what IREE does badly decomposed."""

from . import calls, elementwise, indexing, reductions, sorting, structural, windows
from .lowering import LoweredModule, lower_module, lowering

__all__ = ["LoweredModule", "calls", "elementwise", "lower_module", "lowering", "reductions", "structural"]
