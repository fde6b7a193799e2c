"""A reference from outside, written by a function with a derivative of its own."""

import quire

calls = quire.new_ref(0)


@quire.custom_vjp
def f(x):
    calls[...] += 1
    return x


f.defvjp(lambda x: (x, None), lambda _, g: (g,))
quire.grad(lambda x: f(x) * 2)(3.0)

#| NotImplementedError: custom_vjp_call f: the function writes to a reference from outside (at ref_custom_vjp.py:15, in <lambda>), and has a rule of its own for the derivative: write to it in the rule, or in a function without one
