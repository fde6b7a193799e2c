"""flax.linen: a convolutional network with batch normalisation and dropout, trained with TrainState; lifted scan of an LSTM"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training import train_state


class CNN(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool):
        x = nn.relu(nn.Conv(8, (3, 3), use_bias=False)(x))
        x = nn.BatchNorm(use_running_average=not train)(x)
        x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = x.reshape((x.shape[0], -1))
        x = nn.Dropout(0.2, deterministic=not train)(nn.relu(nn.Dense(16)(x)))
        return nn.Dense(3)(x)


class State(train_state.TrainState):
    batch_stats: dict


@jax.jit
def step(state, x, y, key):
    def loss(params):
        logits, updates = state.apply_fn(
            {"params": params, "batch_stats": state.batch_stats},
            x,
            True,
            mutable=["batch_stats"],
            rngs={"dropout": key},
        )
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), updates

    (value, updates), grads = jax.value_and_grad(loss, has_aux=True)(state.params)
    state = state.apply_gradients(grads=grads)
    return state.replace(batch_stats=updates["batch_stats"]), value


class Recurrent(nn.Module):
    @nn.compact
    def __call__(self, xs):
        cell = nn.scan(nn.LSTMCell, variable_broadcast="params", split_rngs={"params": False}, in_axes=1, out_axes=1)(4)
        carry = cell.initialize_carry(jax.random.key(0), xs[:, 0].shape)
        carry, ys = cell(carry, xs)
        return nn.MultiHeadDotProductAttention(num_heads=2)(ys)


def main():
    model = CNN()
    x = jax.random.normal(jax.random.key(0), (24, 8, 8, 1))
    y = jnp.arange(24) % 3
    variables = model.init({"params": jax.random.key(1)}, x, False)
    state = State.create(apply_fn=model.apply, params=variables["params"], tx=optax.adam(1e-2),
                         batch_stats=variables["batch_stats"])  # fmt: skip
    losses = []
    for i in range(12):
        state, value = step(state, x, y, jax.random.fold_in(jax.random.key(2), i))
        losses.append(value)
    recurrent = Recurrent()
    xs = jax.random.normal(jax.random.key(3), (2, 5, 3))
    params = recurrent.init(jax.random.key(4), xs)
    grads = jax.grad(lambda p: (recurrent.apply(p, xs) ** 2).sum())(params)
    return {
        "losses": jnp.stack(losses),
        "logits": model.apply({"params": state.params, "batch_stats": state.batch_stats}, x, False)[:4],
        "recurrent": recurrent.apply(params, xs),
        "gradient norm": optax.global_norm(grads),
    }
