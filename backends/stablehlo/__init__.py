"""quire.backends.stablehlo: each primitive lowered to StableHLO, with what IREE does badly decomposed."""

from quire.ir.primitives import load_rules

from .lowering import LoweredModule, lower_module, lowering

load_rules(__name__)

__all__ = ["LoweredModule", "lower_module", "lowering"]
