"""A reference from outside, written under vmap."""

import quire
import quire.numpy as qnp

total = quire.new_ref(0.0)


def f(x):
    total[...] += x


quire.vmap(f)(qnp.ones(3))

#| ValueError: vmap of f: the function writes to the reference Ref{f32[]*}, which is not mapped (at ref_vmap.py:10, in f): every lane would write to one place. Make it an argument that is mapped, or make it within the function
