"""Assignment to an element: arrays are immutable."""

import quire.numpy as qnp

x = qnp.ones(3)
x[0] = 2.0

#| TypeError: quire arrays are immutable and do not support item assignment: instead of x[0] = ... write
#|   x = x.at[0].set(2.0)
