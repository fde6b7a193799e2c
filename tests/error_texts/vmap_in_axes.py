"""in_axes that do not fit the arguments."""

import quire
import quire.numpy as qnp

quire.vmap(lambda x, y: x + y, in_axes=(0, 0, 0))(qnp.ones(3), qnp.ones(3))

#| ValueError: vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments passed to the function, but got len(in_axes)=3, len(args)=2
