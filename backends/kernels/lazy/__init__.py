"""Jaxprs on lazy arrays: an array is an expression of its elements until a nest of loops stores or reduces it.

`nodes` says what an element is made of; `schedule` goes through jaxprs, and `views` and `random` have the primitives that are
only another node, for this shelf and for registers. `nests` are the loops, `programs` decides what is put into memory,
`rules` has the primitives that need memory, `loops` the loops and branches.
Whole loops whose state is too large for registers are computed so, and the index vectors of gathers.
"""
