"""A reference from outside, into which a value that is differentiated is written."""

import quire

seen = quire.new_ref(0.0)


def f(x):
    seen[...] = 2 * x
    return x**2


quire.grad(f)(3.0)

#| ValueError: a derivative: a value that is differentiated is written to the reference Ref{f32[]*}, which comes from outside (at ref_grad.py:9, in f): write lax.stop_gradient of it, make the reference within the function, or with new_ref(..., kind='no_grad_no_remat')
