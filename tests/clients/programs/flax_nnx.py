"""flax.nnx: an MLP with batch normalisation and dropout trained by nnx.Optimizer; vmap over models, scan over layers"""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class Model(nnx.Module):
    def __init__(self, rngs):
        self.linear = nnx.Linear(4, 16, use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.out = nnx.Linear(16, 2, rngs=rngs)

    def __call__(self, x):
        return self.out(self.dropout(nnx.relu(self.norm(self.linear(x)))))


@nnx.jit
def step(model, optimizer, x, y):
    def loss(model):
        return ((model(x) - y) ** 2).mean()

    value, grads = nnx.value_and_grad(loss)(model)
    optimizer.update(model, grads)
    return value


def main():
    model = Model(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    x = jax.random.normal(jax.random.key(1), (32, 4))
    y = jnp.stack([jnp.sin(x[:, 0]), x[:, 1] * x[:, 2]], axis=1)
    losses = [step(model, optimizer, x, y) for _ in range(20)]
    model.eval()

    @nnx.split_rngs(splits=3)
    @nnx.vmap(in_axes=(0,), out_axes=0)
    def create(rngs):
        return nnx.Linear(4, 4, rngs=rngs)

    layers = create(nnx.Rngs(5))

    @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
    def forward(h, layer):
        return jnp.tanh(layer(h))

    graphdef, state = nnx.split(model)
    return {
        "losses": jnp.stack(losses),
        "prediction": model(x[:3]),
        "layers": forward(x, layers)[:3],
        "leaves": len(jax.tree.leaves(state)),
        "merged": nnx.merge(graphdef, state)(x[:2]),
    }
