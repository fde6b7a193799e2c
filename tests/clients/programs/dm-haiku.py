"""haiku: a causal transformer trained on a sequence, with state, LayerNorm, dropout and hk.scan"""

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax

VOCABULARY, WIDTH = 17, 16


def network(tokens, train):
    h = hk.Embed(VOCABULARY, WIDTH)(tokens) + hk.get_parameter("positions", [tokens.shape[-1], WIDTH], init=jnp.zeros)
    mask = jnp.tril(jnp.ones((tokens.shape[-1],) * 2))[None, None]
    for _ in range(2):
        a = hk.LayerNorm(-1, True, True)(h)
        h = h + hk.MultiHeadAttention(2, 8, w_init=hk.initializers.VarianceScaling(1.0))(a, a, a, mask=mask)
        a = hk.LayerNorm(-1, True, True)(h)
        a = hk.nets.MLP([32, WIDTH], activation=jax.nn.gelu)(a)
        h = h + (hk.dropout(hk.next_rng_key(), 0.1, a) if train else a)
    count = hk.get_state("count", [], init=jnp.zeros)
    hk.set_state("count", count + 1)
    return hk.Linear(VOCABULARY)(hk.LayerNorm(-1, True, True)(h))


model = hk.transform_with_state(network)
optimizer = optax.adam(3e-3)


def loss(params, state, key, tokens):
    logits, state = model.apply(params, state, key, tokens[:, :-1], True)
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean(), state


@jax.jit
def step(params, state, opt, key, tokens):
    (value, state), grads = jax.value_and_grad(loss, has_aux=True)(params, state, key, tokens)
    updates, opt = optimizer.update(grads, opt)
    return optax.apply_updates(params, updates), state, opt, value


def main():
    tokens = jnp.asarray((np.arange(13)[None] * np.array([[1], [3], [5], [2]])) % VOCABULARY)
    params, state = model.init(jax.random.PRNGKey(0), tokens[:, :-1], True)
    opt = optimizer.init(params)
    losses = []
    for i in range(15):
        params, state, opt, value = step(params, state, opt, jax.random.PRNGKey(i), tokens)
        losses.append(value)
    logits, _ = model.apply(params, state, None, tokens[:, :-1], False)
    return {"losses": jnp.stack(losses), "logits": logits[0, :3], "count": sum(jax.tree.leaves(state)),
            "parameters": hk.data_structures.tree_size(params)}  # fmt: skip
