"""quire.passes.batching: vectorisation (`vmap`) as a pass over jaxprs."""
