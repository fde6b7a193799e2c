"""A collective over an axis that nothing names."""

import quire
import quire.numpy as qnp
from quire import lax

quire.vmap(lambda x: lax.psum(x, "rows"))(qnp.ones(3))

#| NameError: unbound axis name: 'rows'; the axes in scope are none. Give the name to vmap(..., axis_name='rows')
