"""`jax.lib`: without names, as in JAX 0.10."""
