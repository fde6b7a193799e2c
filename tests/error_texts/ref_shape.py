"""A number stored in a whole reference: it is not broadcast."""

import quire
import quire.numpy as qnp


@quire.compile
def clear(ref):
    ref[1:] = 0.0


clear(quire.new_ref(qnp.ones(3)))

#| ValueError: swap: the index selects f32[2] of the reference Ref{f32[3]}, the value is f32[]: it is not broadcast, give it that shape (quire.numpy.broadcast_to) (at ref_shape.py:9, in clear)
