"""A reference that a compiled function closes over, and is given."""

import quire
import quire.numpy as qnp

ref = quire.new_ref(qnp.ones(3))


@quire.compile
def copy(a):
    a[...] = ref[...]


copy(ref)

#| ValueError: copy: the reference Ref{f32[3]} is given twice, as a reference that copy closes over and as a (at ref_closed_over_and_given.py:14, in <module>): only one name of a reference may be used in a function
