"""A scan over arrays of two lengths."""

import quire.numpy as qnp
from quire import lax

lax.scan(lambda c, xs: (c, None), 0.0, (qnp.ones(3), qnp.ones(4)))

#| ValueError: scan: all xs must have the same leading dimension, got xs[0]: 3, xs[1]: 4
