"""A reference in the carry of a scan."""

import quire
import quire.numpy as qnp


def body(ref, x):
    ref[...] += x
    return ref, None


quire.lax.scan(body, quire.new_ref(0.0), qnp.ones(3))

#| ValueError: body body returned a reference Ref{f32[]*} at result[0], but references cannot be returned (at ref_carried.py:12, in <module>). It is argument 0 of body body. Return what it holds, ref[...], or write to one that is given
