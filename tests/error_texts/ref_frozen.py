"""A reference that is used after it was frozen."""

import quire
import quire.numpy as qnp


@quire.compile
def f(x):
    ref = quire.new_ref(x)
    y = quire.freeze(ref)
    ref[0] = 1.0
    return y


f(qnp.ones(3))

#| ValueError: set: the reference Ref{f32[3]} was ended by freeze (at ref_frozen.py:10, in f), and is used again (at ref_frozen.py:11, in f): use the array that freeze returned
