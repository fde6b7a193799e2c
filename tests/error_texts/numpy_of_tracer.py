"""A function of NumPy's is called with a traced value."""

import numpy as np

import quire
import quire.numpy as qnp


@quire.compile
def f(x):
    return np.sort(x)


f(qnp.ones(3))

#| quire.ir.errors.TracerArrayConversionError: a traced value f32[3] was passed to NumPy, which needs its value (at numpy_of_tracer.py:11, in f).
#|   It is x of compile of f.
#|   Under compile of f values are not known while the function is traced: use the function of the same name in quire.numpy, or quire.pure_callback.
