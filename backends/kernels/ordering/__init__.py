"""Sort and top_k in JAX's order.

`choice` takes ranks and radix passes on CPUs (`radix_sort`, `radix_top_k`) and a bitonic network on GPUs (`bitonic`).
Elements are only compared, by integer keys, and moved: their bits are never changed.
"""
