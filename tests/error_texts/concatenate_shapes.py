"""Arrays that differ in another dimension than the one they are joined along."""

import quire.numpy as qnp

qnp.concatenate([qnp.ones((2, 3)), qnp.ones((2, 4))])

#| TypeError: quire.numpy.concatenate: shapes must be equal but along axis 0, got f32[2,3], f32[2,4]
