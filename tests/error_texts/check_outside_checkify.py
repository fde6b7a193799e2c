"""A check in a compiled function that no checkify collects."""

import quire
from quire.experimental import checkify


@quire.compile
def f(x):
    checkify.check(x > 0, "x must be positive")
    return x


f(1.0)

#| ValueError: checkify.check: a check was compiled that nothing collects (at check_outside_checkify.py:9, in f): apply checkify.checkify to the function inside compile, quire.compile(checkify.checkify(f)), which returns the error beside the result
