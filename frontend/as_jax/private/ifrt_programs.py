"""`jax.extend.ifrt_programs`: programs for JAX's Pathways. orbax imports the module; nothing of it is here."""

#: JAX's table of such programs; there are none.
ifrt_programs = None
