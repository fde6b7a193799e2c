"""One reference given to a compiled function under two names."""

import quire
import quire.numpy as qnp


@quire.compile
def copy(a, b):
    a[...] = b[...]


ref = quire.new_ref(qnp.ones(3))
copy(ref, ref)

#| ValueError: copy: the reference Ref{f32[3]} is given twice, as a and as b (at ref_given_twice.py:13, in <module>): only one name of a reference may be used in a function
