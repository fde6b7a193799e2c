"""`jax._src.array` and `jax._src.earray`: the class of arrays."""

from quire.runtime.array import Array

ArrayImpl = EArray = Array
