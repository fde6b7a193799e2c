"""A misspelt name."""

import quire.numpy as qnp

qnp.cumsun(qnp.ones(3))

#| AttributeError: module 'quire.numpy' has no attribute 'cumsun'; did you mean quire.numpy.cumsum?
