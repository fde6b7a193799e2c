"""A loop of Python's over a number that is an argument."""

import quire


@quire.compile
def power(x, n):
    y = 1.0
    for _ in range(n):
        y = y * x
    return y


power(2.0, 3)

#| quire.ir.errors.TracerIntegerConversionError: a traced value i32[] was used as a Python integer (an index of a list, a shape, range()) (at tracer_as_range.py:9, in power).
#|   It is n of compile of power.
#|   Under compile of power values are not known while the function is traced: index an array instead of a list, use quire.lax.fori_loop for range, or mark the argument static.
