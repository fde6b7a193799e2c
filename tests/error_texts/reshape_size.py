"""A reshape to another number of elements."""

import quire.numpy as qnp

qnp.arange(6).reshape(4, 2)

#| TypeError: quire.numpy.reshape: cannot reshape i32[6] of size 6 into shape (4, 2) of size 8
