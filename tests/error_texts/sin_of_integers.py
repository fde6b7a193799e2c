"""Functions of lax do not convert: the sine of integers."""

import quire.numpy as qnp
from quire import lax

lax.sin(qnp.arange(3))

#| TypeError: sin: operand i32[3] has dtype int32, expected a float or complex dtype
