"""Mapped arguments of two sizes."""

import quire
import quire.numpy as qnp

quire.vmap(lambda x, y: x + y)(qnp.ones(3), qnp.ones(4))

#| ValueError: vmap of <lambda> got inconsistent sizes for array axes to be mapped (at vmap_sizes.py:6, in <module>):
#|   * size 3: x of type f32[3] along axis 0
#|   * size 4: y of type f32[4] along axis 0
