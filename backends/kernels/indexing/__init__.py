"""Gather and scatter of windows at places that index vectors say.

`gather` copies windows by vectors, `scatter` updates them in the order of the updates,
`scatter_by_threads` does so on GPUs; `update_axes` says where the elements of updates belong. `index_vectors` reads the index
vectors from memory, or computes them from the equations that the fuse pass has put beside the operation.
"""
