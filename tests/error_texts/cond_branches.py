"""Branches that return different types."""

import quire.numpy as qnp
from quire import lax

lax.cond(True, lambda x: x, lambda x: x.sum(), qnp.ones(3))

#| TypeError: cond: true_fun and false_fun must return the same shapes and dtypes:
#|   output: true_fun returns f32[3], false_fun returns f32[]
#|   Convert one of them (astype, reshape).
