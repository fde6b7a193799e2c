"""`jax._src.ad_util`: the primitive of `stop_gradient`, of which lineax overrides the transposition."""

from quire.ir.primitives.elementwise import stop_gradient_p as stop_gradient_p
