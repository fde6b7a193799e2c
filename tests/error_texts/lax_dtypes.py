"""Functions of lax do not promote: two dtypes."""

import quire.numpy as qnp
from quire import lax

lax.add(qnp.ones(3), qnp.ones(3, int))

#| TypeError: add: the operands must have one dtype, got f32[3], i32[3]: convert with lax.convert_element_type or use quire.numpy, which promotes
