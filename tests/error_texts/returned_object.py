"""A compiled function returns what is no array."""

import quire

quire.compile(lambda x: (x, "done"))(1.0)

#| TypeError: <lambda> returned 'done' of type str at 1: a compiled function returns arrays, numbers and containers of them (None counts as an empty container)
