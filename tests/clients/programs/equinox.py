"""an MLP trained by filter_jit and filter_value_and_grad; partition, vmapped ensembles, tree_at, conv and attention"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax

optimizer = optax.adam(1e-2)


@eqx.filter_value_and_grad
def loss(model, x, y):
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


@eqx.filter_jit
def step(model, state, x, y):
    value, grads = loss(model, x, y)
    updates, state = optimizer.update(grads, state, eqx.filter(model, eqx.is_inexact_array))
    return eqx.apply_updates(model, updates), state, value


class Net(eqx.Module):
    conv: eqx.nn.Conv2d
    norm: eqx.nn.LayerNorm
    attention: eqx.nn.MultiheadAttention
    scale: float = eqx.field(static=True, default=2.0)

    def __init__(self, key):
        a, b = jr.split(key)
        self.conv = eqx.nn.Conv2d(1, 4, 3, key=a)
        self.norm = eqx.nn.LayerNorm((4,))
        self.attention = eqx.nn.MultiheadAttention(2, 4, key=b)
        self.scale = 2.0

    def __call__(self, x):
        h = jax.nn.relu(self.conv(x)).reshape(4, -1).T
        h = jax.vmap(self.norm)(h)
        return self.scale * self.attention(h, h, h).mean()


def main():
    key = jr.key(0)
    x = jr.normal(jr.key(1), (128, 3))
    y = jnp.stack([jnp.sin(x[:, 0]), x[:, 1] * x[:, 2]], axis=1)
    model = eqx.nn.MLP(3, 2, 32, 2, activation=jnp.tanh, key=key)
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
    losses = []
    for _ in range(40):
        model, state, value = step(model, state, x, y)
        losses.append(value)
    ensemble = eqx.filter_vmap(lambda k: eqx.nn.Linear(3, 2, key=k))(jr.split(key, 4))
    outs = eqx.filter_vmap(lambda m, v: m(v), in_axes=(eqx.if_array(0), None))(ensemble, x[0])
    net = Net(jr.key(3))
    image = jr.normal(jr.key(4), (1, 6, 6))
    grads = eqx.filter_grad(lambda n: n(image))(net)
    net2 = eqx.tree_at(lambda n: n.conv.bias, net, replace_fn=jnp.zeros_like)
    return {
        "losses": jnp.stack(losses)[::4],
        "ensemble": outs,
        "net": eqx.filter_jit(net)(image),
        "net2": net2(image),
        "grad": grads.conv.weight,
    }
