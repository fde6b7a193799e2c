"""tinygp: kernels composed, a fit of hyperparameters by gradients, predictions, and the quasiseparable solver"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tinygp
from tinygp import GaussianProcess, kernels

r = np.random.default_rng(0)
x = jnp.asarray(np.sort(r.uniform(0, 8, 40)), jnp.float32)
y = jnp.sin(x) + jnp.asarray(0.1 * r.normal(size=40), jnp.float32)
optimizer = optax.adam(0.05)


def build(params, x):
    kernel = jnp.exp(params["amplitude"]) * kernels.Matern32(jnp.exp(params["scale"]))
    kernel += 0.1 * kernels.ExpSineSquared(scale=3.0, gamma=0.5)
    return GaussianProcess(kernel, x, diag=jnp.exp(params["noise"]), mean=params["mean"])


@jax.jit
def step(params, state):
    value, grads = jax.value_and_grad(lambda p: -build(p, x).log_probability(y))(params)
    updates, state = optimizer.update(grads, state)
    return optax.apply_updates(params, updates), state, value


def main():
    params = {
        "amplitude": jnp.float32(0.0),
        "scale": jnp.float32(0.3),
        "noise": jnp.float32(-2.0),
        "mean": jnp.float32(0.1),
    }
    state = optimizer.init(params)
    losses = []
    for _ in range(20):
        params, state, value = step(params, state)
        losses.append(value)
    new = jnp.linspace(0, 9, 7)
    conditioned = build(params, x).condition(y, new).gp
    quasi = GaussianProcess(tinygp.kernels.quasisep.Matern32(1.5), x, diag=0.1)
    return {
        "losses": jnp.stack(losses),
        "fitted": jnp.stack([params[k] for k in sorted(params)]),
        "mean": conditioned.loc,
        "variance": conditioned.variance,
        "quasi separable": quasi.log_probability(y),
        "sample": build(params, new).sample(jax.random.PRNGKey(0)),
    }
