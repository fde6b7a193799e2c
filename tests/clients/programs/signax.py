"""signax: signatures and log-signatures of batches of paths, Chen's identity, and a gradient"""

import jax
import jax.numpy as jnp
import signax


def main():
    path = jnp.cumsum(jax.random.normal(jax.random.key(0), (7, 2)), axis=0)
    signature = signax.signature(path, 3)
    first, second = signax.signature(path[:4], 3), signax.signature(path[3:], 3)
    return {
        "signature": signature,
        "chen": signax.signature_combine(first, second, 2, 3),
        "logarithm": signax.logsignature(path, 3),
        "gradient": jax.jit(jax.grad(lambda p: signax.signature(p, 3)[2] ** 2))(path),
        "batch": signax.signature(jnp.stack([path, 2 * path]), 2),
    }
