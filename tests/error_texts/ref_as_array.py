"""A reference in the place of an array."""

import quire
import quire.numpy as qnp


@quire.compile
def f(ref):
    return qnp.sin(ref)


f(quire.new_ref(qnp.ones(3)))

#| TypeError: quire.numpy.sin: sin: expected arrays, got a reference Ref{f32[3]}: read it first, with ref[...] (at ref_as_array.py:9, in f)
