"""Trains a convolutional network of flax on the handwritten digits, on quire: jax need not be installed.

`import quire.as_jax` comes first, and answers `import jax` for flax and optax, which are as they were installed:
``pip install --no-deps flax optax ...`` (`./tools/test-clients` makes such an environment). The data is that of digits_mlp.py.
"""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import quire.as_jax  # noqa: F401 - before anything that imports jax

# isort: split
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

HELD_OUT, BATCH, EPOCHS = 360, 128, 8


def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """The images, f32[1797,8,8,1] in 0..1, and the labels, i32[1797], in one random order."""
    with gzip.open(Path(__file__).with_name("digits.csv.gz"), "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    table = np.random.default_rng(0).permutation(table)
    return (table[:, :-1] / 16).astype(np.float32).reshape(-1, 8, 8, 1), table[:, -1].astype(np.int32)


class Network(nnx.Module):
    """Two convolutions and two dense layers, with dropout between these."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Conv(1, 16, (3, 3), rngs=rngs)
        self.second = nnx.Conv(16, 32, (3, 3), rngs=rngs)
        self.hidden = nnx.Linear(4 * 4 * 32, 64, rngs=rngs)
        self.dropout = nnx.Dropout(0.2, rngs=rngs)
        self.out = nnx.Linear(64, 10, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.relu(self.first(x))
        x = nnx.max_pool(nnx.relu(self.second(x)), (2, 2), (2, 2))
        x = nnx.relu(self.hidden(x.reshape(x.shape[0], -1)))
        return self.out(self.dropout(x))


@nnx.jit
def train_step(model: Network, optimizer: nnx.Optimizer, images: jax.Array, labels: jax.Array) -> jax.Array:
    """One step of Adam; the loss before it."""

    def loss(model: Network) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(model(images), labels).mean()

    value, grads = nnx.value_and_grad(loss)(model)
    optimizer.update(model, grads)
    return value


@nnx.jit
def accuracy(model: Network, images: jax.Array, labels: jax.Array) -> jax.Array:
    """The share of images that the network names right."""
    return (model(images).argmax(-1) == labels).mean()


def main() -> None:
    images, labels = load_digits()
    held_images, held_labels = jnp.asarray(images[:HELD_OUT]), jnp.asarray(labels[:HELD_OUT])
    images, labels = images[HELD_OUT:], labels[HELD_OUT:]
    model = Network(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(2e-3), wrt=nnx.Param)
    count = sum(x.size for x in jax.tree.leaves(nnx.state(model, nnx.Param)))
    print(f"{count} parameters, jax {jax.__version__} answered by {jax.jit.__module__.split('.')[0]}")
    rng, start = np.random.default_rng(1), time.perf_counter()
    for epoch in range(EPOCHS):
        model.train()
        losses = []
        order = rng.permutation(len(images))[: len(images) // BATCH * BATCH].reshape(-1, BATCH)
        for batch in order:
            losses.append(train_step(model, optimizer, images[batch], labels[batch]))
        model.eval()
        right = float(accuracy(model, held_images, held_labels))
        print(f"epoch {epoch + 1}: loss {float(jnp.stack(losses).mean()):.4f}, held-out accuracy {right:.1%}")
    print(f"{time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
