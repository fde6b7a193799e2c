"""What other packages build on: all names that quire keeps stable for them are here (docs/extending.md).

A test holds the signatures of these names against a list; what other modules of quire hold may change with any version.
JAX's own ways of adding primitives are in `quire.extend` and `quire.interpreters`.
"""

from quire.backends.reference.rules import reference
from quire.backends.stablehlo.lowering import lower_traced, lowering
from quire.backends.targets import Target, get_target, register_target, registered_targets
from quire.ir.avals import ShapedArray
from quire.ir.errors import PassError, QuireError, UnsupportedError
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, subst_eqn
from quire.ir.primitive import Primitive, find_primitive, primitive
from quire.ir.primitives.common import BITS, COMPLEX, FLOAT, INEXACT, INTEGER, NUMBER, REAL, check_dtype
from quire.ir.verifier import verify
from quire.passes.ad.rules import Linear, define_jvp, define_linear, define_zero_jvp, jvp, transpose
from quire.passes.base import Pass, PassContext, parse_pipeline, register_pass, registered_passes
from quire.passes.batching.rules import batching, define_elementwise
from quire.passes.manager import PassManager, PassRecord, PipelineResult
from quire.passes.rewriting import transform_nested
from quire.passes.simplify import add_identities

from .absent_names import module_getattr
from .kernels import UserKernel, kernel

__all__ = [
    "Atom", "BITS", "COMPLEX", "ClosedJaxpr", "Eqn", "FLOAT", "INEXACT", "INTEGER", "Jaxpr", "Linear", "Literal", "NUMBER", "Pass",
    "PassContext", "PassError", "PassManager", "PassRecord", "PipelineResult", "Primitive", "QuireError", "REAL",
    "ShapedArray", "Target", "UnsupportedError", "UserKernel", "Var", "add_identities", "batching", "check_dtype", "define_elementwise",
    "define_jvp", "define_linear", "define_zero_jvp", "find_primitive", "get_target", "jvp", "kernel", "lower_traced", "lowering",
    "parse_pipeline", "primitive", "reference", "register_pass", "register_target", "registered_passes",
    "registered_targets", "subst_eqn", "transform_nested", "transpose", "verify",
]  # fmt: skip

__getattr__ = module_getattr("quire.plugins", globals())
