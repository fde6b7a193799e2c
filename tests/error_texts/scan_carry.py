"""A scan whose body returns a carry of another type."""

import quire.numpy as qnp
from quire import lax


def body(total, x):
    return total + x, None


lax.scan(body, 0.0, qnp.ones((2, 3)))

#| TypeError: scan: f body must return the types of the carry it takes:
#|   carry: takes f32[], returns f32[3] (the shapes differ)
#|   Convert the initial carry or what the body returns (astype, reshape).
