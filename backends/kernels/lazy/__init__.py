"""Jaxprs on lazy arrays: an array is an expression of its elements until a nest of loops stores or reduces it.

`nodes` says what an element is made of, `nests` are the loops, `programs` goes through a jaxpr and decides what is put
into memory, `rules` has the primitives that are not elementwise, `loops` the loops and branches.
Whole loops whose state is too large for registers are computed so, and the index vectors of gathers.
"""
