"""The gradient with respect to integers."""

import quire
import quire.numpy as qnp


def f(n):
    return (n * 2.0).sum()


quire.grad(f)(qnp.arange(3))

#| TypeError: grad requires real- or complex-valued inputs (float or complex dtype), got int32 (at grad_of_integers.py:11, in <module>): convert the argument with .astype(float), or pass allow_int=True for a gradient of dtype float0
