"""A predicate that is an array."""

import quire.numpy as qnp
from quire import lax

lax.cond(qnp.ones(3) > 0, lambda: 1, lambda: 2)

#| TypeError: cond: pred must be a scalar, got bool[3]: reduce it with all() or any(), or use where
