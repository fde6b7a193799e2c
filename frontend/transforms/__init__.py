"""Functions made of functions: derivatives, `vmap`, rematerialization, and rules of the user's for them."""
