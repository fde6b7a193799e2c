"""Reverse differentiation of a loop whose number of turns is not known."""

import quire
from quire import lax


def f(x):
    return lax.while_loop(lambda c: c < 10.0, lambda c: c * x, x)


quire.grad(f)(2.0)

#| ValueError: while_loop cannot be differentiated in reverse (at grad_of_while.py:8, in f): the number of its iterations, and so the memory needed, is not known. Give a bound, while_loop(..., max_steps=n), use scan or fori_loop with bounds known while tracing, or use forward mode (jvp, jacfwd)
