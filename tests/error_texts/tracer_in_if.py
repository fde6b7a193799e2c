"""Python's if needs a value that is not there while the function is traced."""

import quire
import quire.numpy as qnp


@quire.compile
def relu(x):
    if x > 0:
        return x
    return 0.0


relu(qnp.float32(1))

#| quire.ir.errors.TracerBoolConversionError: a traced value bool[] was used as a Python condition (if, while, and, or, not) (at tracer_in_if.py:9, in relu).
#|   It is the result of gt (at tracer_in_if.py:9, in relu).
#|   Under compile of relu values are not known while the function is traced: use quire.lax.cond or quire.numpy.where, quire.lax.while_loop for a loop, & | ~ for and, or, not.
