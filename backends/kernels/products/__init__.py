"""Matrix products, convolutions and attention.

`choice` decides which contractions become kernels and says why not; `matrices` brings them to stacks of strided matrix
products, `plans` chooses the form, and `register_tile` is the inner loop that all of the large ones share. What follows
a product element by element is computed before it is stored (`epilogue`).
"""
