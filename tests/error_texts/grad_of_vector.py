"""The gradient of a function that returns an array."""

import quire
import quire.numpy as qnp


def f(x):
    return x * 2


quire.grad(f)(qnp.ones(3))

#| TypeError: Gradient only defined for scalar-output functions. Output had shape: (3,). Reduce it, for example with .sum(), or use quire.jacrev
