"""float() of a traced value."""

import quire
import quire.numpy as qnp


@quire.compile
def scaled(x):
    return x * float(x.sum())


scaled(qnp.ones(3))

#| quire.ir.errors.ConcretizationTypeError: a traced value f32[] was used where Python needs its value: float() (at tracer_as_float.py:9, in scaled).
#|   It is the result of reduce_sum (at tracer_as_float.py:9, in scaled).
#|   Under compile of scaled values are not known while the function is traced: mark the argument static (static_argnums) if it is one, or use array operations.
