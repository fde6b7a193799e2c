"""adam with a warmup and cosine schedule, clipped gradients and weight decay on a regression; contrib and losses"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

rng = np.random.default_rng(0)
x = jnp.asarray(rng.normal(size=(64, 8)), jnp.float32)
y = jnp.sin(x @ jnp.asarray(rng.normal(size=(8, 3)), jnp.float32))
schedule = optax.warmup_cosine_decay_schedule(0.0, 0.05, 10, 60)
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=1e-3))


def loss(params):
    hidden = jnp.tanh(x @ params["w1"] + params["b1"])
    return optax.l2_loss(hidden @ params["w2"], y).mean()


@jax.jit
def step(params, state):
    value, grads = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value


def main():
    r = np.random.default_rng(1)
    params = {"w1": jnp.asarray(r.normal(size=(8, 16)) / 3, jnp.float32), "b1": jnp.zeros(16),
              "w2": jnp.asarray(r.normal(size=(16, 3)) / 4, jnp.float32)}  # fmt: skip
    state = optimizer.init(params)
    losses = []
    for _ in range(60):
        params, state, value = step(params, state)
        losses.append(value)
    logits = jnp.asarray(r.normal(size=(5, 4)), jnp.float32)
    return {
        "losses": jnp.stack(losses)[::6],
        "rate": schedule(jnp.arange(0, 60, 12)),
        "norm": optax.global_norm(params),
        "cross entropy": optax.softmax_cross_entropy_with_integer_labels(logits, jnp.array([0, 1, 2, 3, 0])),
        "huber": optax.huber_loss(logits[0], logits[1]),
    }
