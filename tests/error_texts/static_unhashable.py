"""A static argument that cannot be hashed."""

import quire
import quire.numpy as qnp

f = quire.compile(lambda x, axes: x.sum(tuple(axes)), static_argnums=1)
f(qnp.ones((2, 3)), [0, 1])

#| ValueError: static argument 1 of <lambda> has type list, which cannot be hashed (unhashable type: 'list') (at static_unhashable.py:7, in <module>): a static argument selects the compiled variant, so it must be hashable (a tuple instead of a list) and immutable; or pass it as an array, not static
