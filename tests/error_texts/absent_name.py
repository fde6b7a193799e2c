"""A name of JAX's that quire does not have."""

import quire

quire.fwd_and_bwd(lambda x: x)

#| AttributeError: module 'quire' has no attribute 'fwd_and_bwd': use vjp inside compile
