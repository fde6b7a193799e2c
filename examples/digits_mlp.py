"""Trains a 64-128-64-10 network on the handwritten digits: `vmap`, `value_and_grad` and Adam inside `compile`.

The data: 1,797 digits of 8x8 pixels (0-16) with their labels, the test set of "Optical Recognition of Handwritten
Digits" (E. Alpaydin, C. Kaynak), CC BY 4.0, as scikit-learn distributes it. Run with ``python examples/digits_mlp.py``.
"""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import numpy as np

import quire
import quire.numpy as qnp

SIZES = (64, 128, 64, 10)
HELD_OUT = 360
BATCH = 128
EPOCHS = 40
LEARNING_RATE, BETA1, BETA2, EPSILON = 2e-3, 0.9, 0.999, 1e-8


def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """The pixels, f32[1797,64] in 0..1, and the labels, i32[1797], in one random order."""
    with gzip.open(Path(__file__).with_name("digits.csv.gz"), "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    table = np.random.default_rng(0).permutation(table)
    return (table[:, :-1] / 16).astype(np.float32), table[:, -1].astype(np.int32)


def initial_parameters(seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Weights (He's normal initialisation) and biases of each layer."""
    rng = np.random.default_rng(seed)
    return [
        {"w": (rng.normal(size=(m, n)) * np.sqrt(2 / m)).astype(np.float32), "b": np.zeros(n, np.float32)}
        for m, n in zip(SIZES, SIZES[1:])
    ]


def make_step(lib, np_):
    """The training step written with the functions of `lib` and its NumPy: quire, or JAX to compare with."""

    def logits(params, pixels):
        """The network for one digit: f32[64] to f32[10]."""
        *hidden, last = params
        for layer in hidden:
            pixels = np_.maximum(pixels @ layer["w"] + layer["b"], 0.0)
        return pixels @ last["w"] + last["b"]

    def cross_entropy(params, pixels, label):
        """Of one digit: log-sum-exp of the logits less that of the label."""
        z = logits(params, pixels)
        top = z.max()
        return top + np_.log(np_.exp(z - top).sum()) - z[label]

    def loss(params, pixels, labels):
        return lib.vmap(cross_entropy, in_axes=(None, 0, 0))(params, pixels, labels).mean()

    def adam(p, m, v, g, t):
        """D. Kingma, J. Ba, "Adam: A Method for Stochastic Optimization" (2015), algorithm 1."""
        m = BETA1 * m + (1 - BETA1) * g
        v = BETA2 * v + (1 - BETA2) * g * g
        p = p - LEARNING_RATE * (m / (1 - BETA1**t)) / (np_.sqrt(v / (1 - BETA2**t)) + EPSILON)
        return p, m, v

    def step(params, moments, t, pixels, labels):
        """One step of Adam: the new parameters and moments, and the loss before the step."""
        value, grads = lib.value_and_grad(loss)(params, pixels, labels)
        new_params, new_moments = [], []
        for layer, (m, v), g in zip(params, moments, grads):
            new = {k: adam(layer[k], m[k], v[k], g[k], t) for k in layer}
            new_params.append({k: p for k, (p, _, _) in new.items()})
            new_moments.append(({k: m for k, (_, m, _) in new.items()}, {k: v for k, (_, _, v) in new.items()}))
        return new_params, new_moments, value

    def predict(params, pixels):
        return lib.vmap(logits, in_axes=(None, 0))(params, pixels).argmax(axis=1)

    return step, predict


def zero_moments(params):
    """Adam's first and second moments of each layer's parameters."""
    return [tuple({k: np.zeros_like(x) for k, x in layer.items()} for _ in range(2)) for layer in params]


def batches(n: int, epochs: int, seed: int = 1):
    """The rows of each batch, every epoch in another order; an incomplete batch is left out."""
    rng = np.random.default_rng(seed)
    for epoch in range(epochs):
        order = rng.permutation(n)
        for start in range(0, n - BATCH + 1, BATCH):
            yield epoch, order[start : start + BATCH]


def train(epochs: int = EPOCHS, report=print):
    """Train; returns the parameters and the accuracy on the rows held out. `report` is given a line an epoch."""
    pixels, labels = load_digits()
    train_x, train_y = pixels[HELD_OUT:], labels[HELD_OUT:]
    test_x, test_y = pixels[:HELD_OUT], labels[:HELD_OUT]
    step, predict = (quire.compile(f) for f in make_step(quire, qnp))
    params = initial_parameters()
    moments = zero_moments(params)
    losses: list[float] = []
    accuracy = 0.0
    start = time.perf_counter()
    steps = list(batches(len(train_x), epochs))
    for t, (epoch, rows) in enumerate(steps, 1):
        params, moments, value = step(params, moments, np.float32(t), train_x[rows], train_y[rows])
        losses.append(float(value))
        if t == len(steps) or steps[t][0] != epoch:
            accuracy = float(np.mean(np.asarray(predict(params, test_x)) == test_y))
            seconds = time.perf_counter() - start
            report(
                f"epoch {epoch + 1:3d}/{epochs}  loss {np.mean(losses):.4f}  held-out accuracy {accuracy:.2%}  "
                f"{seconds:5.1f} s"
            )
            losses.clear()
    return params, accuracy


def main() -> None:
    _, accuracy = train(report=lambda line: print(line, flush=True))
    print(f"{accuracy:.2%} of {HELD_OUT} held-out digits are recognised")


if __name__ == "__main__":
    main()
