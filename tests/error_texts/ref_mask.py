"""A mask as the index of a reference."""

import quire
import quire.numpy as qnp

ref = quire.new_ref(qnp.arange(3.0))
ref[ref[...] > 1] = 0.0

#| TypeError: set: a reference cannot be indexed by a mask, bool[3] (at ref_mask.py:7, in <module>): read it, and store quire.numpy.where(mask, new, ref[...])
