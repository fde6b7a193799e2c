"""The private modules of JAX (`jax._src.*`) that libraries import: `modules.MODULES` says which files stand for which."""
