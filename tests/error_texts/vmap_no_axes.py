"""vmap of which no argument is mapped."""

import quire
import quire.numpy as qnp

quire.vmap(lambda x: x * 2, in_axes=None)(qnp.ones(3))

#| ValueError: vmap of <lambda> must have at least one non-None value in in_axes, or axis_size (at vmap_no_axes.py:6, in <module>)
