"""flashbax: a flat buffer and a prioritised trajectory buffer filled, sampled and reweighted under jit"""

import flashbax as fbx
import jax
import jax.numpy as jnp


def main():
    buffer = fbx.make_flat_buffer(max_length=32, min_length=4, sample_batch_size=5, add_batch_size=2)
    state = buffer.init({"obs": jnp.zeros(3), "reward": jnp.float32(0)})
    add, sample = jax.jit(buffer.add), jax.jit(buffer.sample)
    for i in range(6):
        state = add(state, {"obs": jnp.full((2, 3), float(i)), "reward": jnp.array([i, -i], jnp.float32)})
    batch = sample(state, jax.random.PRNGKey(0)).experience
    prioritised = fbx.make_prioritised_trajectory_buffer(add_batch_size=2, sample_batch_size=3, sample_sequence_length=4, period=1,
                                                         max_length_time_axis=16, min_length_time_axis=8)  # fmt: skip
    held = prioritised.init({"x": jnp.float32(0)})
    held = prioritised.add(held, {"x": jnp.arange(20.0).reshape(2, 10)})
    drawn = prioritised.sample(held, jax.random.PRNGKey(1))
    held = prioritised.set_priorities(held, drawn.indices, jnp.array([0.5, 2.0, 1.0]))
    again = prioritised.sample(held, jax.random.PRNGKey(2))
    return {"first": batch.first["obs"], "second": batch.second["reward"], "drawn": drawn.experience["x"],
            "again": again.experience["x"], "probabilities": again.probabilities, "ready": buffer.can_sample(state)}  # fmt: skip
