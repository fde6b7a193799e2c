"""An index beyond the end of a reference."""

import quire
import quire.numpy as qnp

ref = quire.new_ref(qnp.arange(3.0))
ref[3] = 0.0

#| ValueError: set: index 3 is out of bounds for a dimension of length 3 (at ref_bounds.py:7, in <module>)
