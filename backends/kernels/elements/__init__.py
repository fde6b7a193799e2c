"""One element of an array, or a vector of elements, as values of the builder.

Elementwise primitives and the formulas of those that have no operation (`operations`), elements in memory (`memory`),
keys that order elements as JAX does (`keys`), how elements are combined (`monoids`, `combiner`), and Threefry. Whatever
computes with numbers inside a kernel does it with these, so that the numbers are the same in every kernel.
"""
