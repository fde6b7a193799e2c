"""An array of another dtype, stored in a reference."""

import quire
import quire.numpy as qnp

ref = quire.new_ref(qnp.zeros(3, int))
ref[0] = 1
ref[...] = qnp.ones(3)

#| ValueError: swap: the reference Ref{i32[3]} holds int32, the value is f32[3]: convert it, with astype (at ref_dtype.py:8, in <module>)
