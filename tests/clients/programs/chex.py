"""chex: dataclasses as pytrees, assertions of shapes, ranks, finiteness and trees, variants, fake pmap off, tree functions"""

import chex
import jax
import jax.numpy as jnp
import numpy as np


@chex.dataclass
class State:
    position: chex.Array
    count: chex.Array


@chex.chexify
@jax.jit
def checked(x):
    chex.assert_tree_all_finite(x)
    return jnp.log(x)


def main():
    state = State(position=jnp.arange(3.0), count=jnp.array(2))
    doubled = jax.tree.map(lambda x: x * 2, state)
    chex.assert_shape(state.position, (3,))
    chex.assert_rank([state.position, state.count], [1, 0])
    chex.assert_trees_all_equal_structs(state, doubled)
    chex.assert_trees_all_close(doubled.position, jnp.array([0.0, 2.0, 4.0]))
    chex.assert_equal_shape([state.position, doubled.position])
    chex.assert_type([state.position, state.count], [float, int])
    failures = []
    for check in (
        lambda: chex.assert_shape(state.position, (4,)),
        lambda: chex.assert_trees_all_close(state, doubled),
        lambda: chex.assert_tree_all_finite(jnp.array([1.0, jnp.nan])),
        lambda: chex.assert_type(state.position, int),
        lambda: chex.assert_max_traces(lambda x: x, n=0)(1),
    ):
        try:
            check()
            failures.append(0)
        except AssertionError:
            failures.append(1)
    chex.clear_trace_counter()
    counted = jax.jit(chex.assert_max_traces(lambda x: x + 1, n=1))
    a, b = counted(jnp.ones(2)), counted(jnp.zeros(2))
    value = checked(jnp.array([1.0, 2.0]))
    checked.wait_checks()
    failed = 0
    try:
        checked(jnp.array([1.0, jnp.inf]))
        checked.wait_checks()
    except AssertionError:
        failed = 1
    with chex.fake_jit():
        faked = jax.jit(lambda x: x * 3)(np.float32(2))
    return {"doubled": doubled.position, "failures": failures, "counted": a + b, "checked": value, "failed": failed,
            "faked": faked}  # fmt: skip
