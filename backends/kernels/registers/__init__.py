"""Jaxprs on small arrays that are held in registers: each element, or each vector of lanes, is a value of the builder.

`interpreter` goes through a jaxpr, `rules` has the primitives that are not elementwise, `loops` the loops and branches.
Slices, transposes and stacks are rearrangements while the kernel is built and cost nothing when it runs.
"""
