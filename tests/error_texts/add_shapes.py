"""Arrays that cannot be broadcast together, within a compiled function."""

import quire
import quire.numpy as qnp


@quire.compile
def f(x, b):
    return x + b


f(qnp.ones((4, 3)), qnp.ones(4))

#| TypeError: quire.numpy.add: incompatible shapes for broadcasting: (4, 3), (4,): dimensions, aligned at the last, must be equal or 1 (at add_shapes.py:9, in f)
