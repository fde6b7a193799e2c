"""Clusters of the fuse pass as kernels: elementwise equations, and reductions with their neighbours.

`elementwise` is one loop over the elements, `alike` the same loop for several clusters that differ in their sizes only,
`reductions` goes over rows or columns of what is reduced.
"""
