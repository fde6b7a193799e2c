"""Programs of other systems as quire's functions: jaxprs of JAX, modules of StableHLO."""
