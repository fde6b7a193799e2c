"""A tangent of another type than its primal."""

import quire
import quire.numpy as qnp

quire.jvp(qnp.sin, (qnp.ones(3),), (qnp.ones(4),))

#| ValueError: jvp: primal and tangent must have the same shape and corresponding dtypes: the tangent of f32[3] is f32[3], got f32[4] (at jvp_tangent_dtype.py:6, in <module>)
