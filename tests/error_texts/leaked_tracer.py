"""A traced value is used after the trace has ended."""

import quire

kept = []


@quire.compile
def f(x):
    kept.append(x * 2)
    return x


f(1.0)
kept[0] + 1

#| quire.ir.errors.UnexpectedTracerError: quire.numpy.add: a traced value f32[] of compile of f was used after its trace ended, or in another one (at leaked_tracer.py:15, in <module>).
#|   It is the result of mul (at leaked_tracer.py:10, in f).
#|   It leaked through a global, an attribute, a closure or a generator: return it from the function instead.
