"""folx: the forward Laplacian of a small network against the trace of its Hessian"""

import folx
import jax
import jax.numpy as jnp


def main():
    w = jax.random.normal(jax.random.key(0), (4, 8)) / 2
    v = jax.random.normal(jax.random.key(1), (8,)) / 3

    def f(x):
        return jnp.sum(jnp.tanh(x @ w) @ v + jnp.sum(x**2) * jnp.sin(x[0]))

    x = jnp.array([0.1, -0.4, 0.7, 0.2])
    found = jax.jit(folx.forward_laplacian(f))(x)
    return {
        "value": found.x,
        "laplacian": found.laplacian,
        "jacobian": found.dense_jacobian,
        "hessian": jnp.trace(jax.hessian(f)(x)),
    }
