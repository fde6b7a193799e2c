"""quire.passes.batching: vectorisation (`vmap`) as a pass over jaxprs."""

from quire.ir.primitives import load_rules

from . import rules as rules

load_rules(__name__)
