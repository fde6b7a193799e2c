"""JAX's private modules, as far as libraries are known to import them."""
