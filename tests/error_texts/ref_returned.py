"""A reference that a compiled function returns."""

import quire
import quire.numpy as qnp


@quire.compile
def f(x):
    return {"state": quire.new_ref(x)}


f(qnp.ones(3))

#| ValueError: f returned a reference Ref{f32[3]} at result['state'], but references cannot be returned. It is the result of new_ref (at ref_returned.py:9, in f). Return what it holds, ref[...], or write to one that is given
