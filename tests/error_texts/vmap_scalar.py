"""vmap over an argument that has no dimension."""

import quire
import quire.numpy as qnp

quire.vmap(lambda x, y: x + y)(qnp.ones(3), 1.0)

#| ValueError: vmap of <lambda> was requested to map its argument along axis 0, which implies that its rank should be at least 1, but argument y has rank 0 (its shape is ()) (at vmap_scalar.py:6, in <module>)
