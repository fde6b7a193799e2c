"""quire.passes.ad: differentiation as passes over jaxprs: jvp, linearize, transpose."""

from quire.ir.primitives import load_rules

from . import rules as rules

load_rules(__name__)
