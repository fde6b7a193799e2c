"""JAX's own test files, run on quire: how much of JAX's behaviour quire has.

    python -m quire.tools.jax_tests CHECKOUT lax_numpy_test lax_test::Conv --cases 50 --seed 0 -o results.json

CHECKOUT is a checkout of JAX's repository (its `tests/` and `jax/_src/`), of the version that `quire.as_jax` names. Its test files
import `jax`, which is answered by quire; the helpers of the tests (`jax._src.test_util` and the like) are read from the
checkout, and the private modules of JAX that they need are stood in for by `shims`. JAX itself is not installed, and not run.
"""
