"""An argument that is no array."""

import quire

quire.compile(lambda x: x)("three")

#| TypeError: argument x of <lambda>: 'three' of type str is not an array: expected a quire or NumPy array or a number (at unknown_argument.py:5, in <module>). If it is not an array but selects what is computed, mark it static (static_argnums or static_argnames)
