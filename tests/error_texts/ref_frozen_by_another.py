"""A reference that a function freezes which did not make it."""

import quire
import quire.numpy as qnp


@quire.compile
def f(ref):
    return quire.freeze(ref)


f(quire.new_ref(qnp.ones(3)))

#| ValueError: freeze: the reference Ref{f32[3]} comes from outside of compile of f (at ref_frozen_by_another.py:9, in f): end it where it was made
