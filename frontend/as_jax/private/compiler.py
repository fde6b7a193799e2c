"""`jax._src.compiler`: what compiles is `quire.compiling.compiler`; nothing of XLA's compiler is here to be replaced."""
