"""A custom_vjp without its rules."""

import quire


@quire.custom_vjp
def f(x):
    return x * 2


quire.grad(f)(1.0)

#| AttributeError: no vjp rules are defined for the custom_vjp function f: give them with f.defvjp
