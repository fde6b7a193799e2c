"""A sampler that is given a seed in place of a key."""

from quire import random

random.normal(0, (3,))

#| TypeError: quire.random.normal: expected a key (quire.random.key(seed), or uint32 of shape (2,)), got i32[]
