"""What `jax.core` has beside quire's: the table of types that count as arrays, to which TensorFlow Probability adds its own."""

from quire.interpreters.xla import pytype_aval_mappings as pytype_aval_mappings
