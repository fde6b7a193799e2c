"""Matrices that cannot be multiplied."""

import quire.numpy as qnp

qnp.ones((4, 3)) @ qnp.ones((4, 3))

#| TypeError: quire.numpy.matmul: f32[4,3] @ f32[4,3]: the last dimension of the first operand (3) and the last but one of the second (4) must be equal
