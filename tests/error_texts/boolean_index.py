"""A boolean index, whose number of elements depends on data."""

import quire
import quire.numpy as qnp


@quire.compile
def positive(x):
    return x[x > 0]


positive(qnp.ones(3))

#| quire.ir.errors.NonConcreteBooleanIndexError: Array boolean indices must be concrete; got bool[3] (at boolean_index.py:9, in positive).
#|   It is the result of gt (at boolean_index.py:9, in positive).
#|   The shape of x[mask] depends on the values of the mask, which are not known while compile of positive is traced:
#|   use quire.numpy.where(mask, x, fill), or quire.numpy.nonzero(mask, size=n).
