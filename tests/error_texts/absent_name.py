"""A name of JAX's that quire does not have."""

import quire

quire.pmap(lambda x: x)

#| AttributeError: module 'quire' has no attribute 'pmap': meshes and shardings are not there yet
