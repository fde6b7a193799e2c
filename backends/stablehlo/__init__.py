"""quire.backends.stablehlo: each primitive lowered to StableHLO, with what IREE does badly decomposed."""

from . import calls, control_flow, elementwise, reductions, structural
from .lowering import LoweredModule, lower_module, lowering

__all__ = ["LoweredModule", "calls", "control_flow", "elementwise", "lower_module", "lowering", "reductions", "structural"]
