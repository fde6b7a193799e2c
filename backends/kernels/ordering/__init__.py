"""Sort and top_k in JAX's order.

`choice` takes ranks and radix passes on CPUs (`radix_sort`, `radix_top_k`). On GPUs (`by_threads`, `rows_by_threads`) rows are sorted
by a bitonic network (`bitonic`), long ones by radix passes (`radix_by_threads`).
Elements are only compared, by integer keys, and moved: their bits are never changed.
"""
