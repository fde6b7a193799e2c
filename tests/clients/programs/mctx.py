"""mctx: a Gumbel MuZero search and a MuZero search with a small linear model of the world"""

import jax
import jax.numpy as jnp
import mctx
import numpy as np

r = np.random.default_rng(0)
W = jnp.asarray(r.normal(size=(3, 4, 4)) / 2, jnp.float32)
V = jnp.asarray(r.normal(size=(4,)), jnp.float32)
P = jnp.asarray(r.normal(size=(4, 3)), jnp.float32)


def recurrent(params, key, action, embedding):
    new = jnp.tanh(jnp.einsum("bij,bj->bi", W[action], embedding))
    output = mctx.RecurrentFnOutput(
        reward=new[:, 0], discount=jnp.full(action.shape, 0.9), prior_logits=new @ P, value=new @ V
    )
    return output, new


@jax.jit
def search(key, state):
    root = mctx.RootFnOutput(prior_logits=state @ P, value=state @ V, embedding=state)
    a = mctx.gumbel_muzero_policy((), key, root, recurrent, num_simulations=16, max_num_considered_actions=3)
    b = mctx.muzero_policy((), key, root, recurrent, num_simulations=12)
    return a, b


def main():
    state = jnp.asarray(np.random.default_rng(1).normal(size=(5, 4)), jnp.float32)
    a, b = search(jax.random.key(0), state)
    return {
        "gumbel action": a.action,
        "gumbel weights": a.action_weights,
        "value": a.search_tree.summary().value,
        "visits": b.search_tree.summary().visit_counts,
        "action": b.action,
        "weights": b.action_weights,
    }
