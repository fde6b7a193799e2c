"""quire's primitives under JAX's names (`jax.extend.core.primitives`): ``add_p``, ``scan_p``, ``custom_jvp_call_p``."""

from quire.ir.primitive import PRIMITIVES
from quire.ir.primitives import calls, control_flow, elementwise

from ...absent_names import module_getattr
from . import CallPrimitive

globals().update({f"{name.replace('-', '_')}_p": p for name, p in PRIMITIVES.items()})

# JAX's other names of the same.
remat_p = calls.checkpoint_p
linear_solve_p = calls.custom_linear_solve_p
add_jaxvals_p = elementwise.add_p
while_p = control_flow.while_p
# Nothing of quire's binds these: a call is put in place. Libraries have rules for them.
call_p = CallPrimitive("call")
closed_call_p = CallPrimitive("closed_call")

__all__ = sorted(name for name in globals() if name.endswith("_p"))

__getattr__ = module_getattr("quire.extend.core.primitives", globals())
