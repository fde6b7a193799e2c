"""An einsum whose label stands for two sizes."""

import quire.numpy as qnp

qnp.einsum("ij,jk->ik", qnp.ones((2, 3)), qnp.ones((4, 5)))

#| ValueError: quire.numpy.einsum: Size of label 'j' for operand 1 (3) does not match previous terms (4).
