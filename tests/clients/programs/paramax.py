"""paramax: parameterizations, weight normalisation and frozen leaves unwrapped within a loss, with gradients"""

import equinox as eqx
import jax
import jax.numpy as jnp
import paramax


def main():
    scale = paramax.Parameterize(jnp.exp, jnp.log(jnp.array([1.0, 2.0, 3.0])))
    weights = paramax.WeightNormalization(jnp.arange(6.0).reshape(2, 3) + 1)
    model = {"scale": scale, "weights": weights, "fixed": paramax.non_trainable(jnp.array([1.0, -1.0]))}

    def loss(model, x):
        m = paramax.unwrap(model)
        return jnp.sum((m["weights"] @ (m["scale"] * x) + m["fixed"]) ** 2)

    value, grads = eqx.filter_jit(eqx.filter_value_and_grad(loss))(model, jnp.array([0.5, -0.3, 0.2]))
    leaves = [jnp.ravel(g) for g in jax.tree.leaves(eqx.filter(grads, eqx.is_array))]
    return {"loss": value, "gradients": jnp.concatenate(leaves), "unwrapped": paramax.unwrap(model)["weights"]}
