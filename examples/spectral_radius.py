"""Trains a complex-valued network to give the spectral radius of complex 2x2 matrices: stax and Adam inside `compile`.

The spectral radius, the largest magnitude of an eigenvalue, is `max(abs(eigvals(a)))`. Weights and activations are
complex: the gradient of a real loss is the conjugate of the direction of steepest ascent, so that it is conjugated
before the step. Run with ``python examples/spectral_radius.py``.
"""

from __future__ import annotations

import time

import quire
import quire.numpy as qnp
from quire import random
from quire.example_libraries import optimizers, stax
from quire.nn.initializers import glorot_normal

BATCH = 64
STEPS = 10_000
LEARNING_RATE = 1e-3
COMPLEX = qnp.complex64


def spectral_radius(a):
    """The largest magnitude of an eigenvalue of a matrix."""
    return qnp.max(qnp.abs(qnp.linalg.eigvals(a)))


def split_relu(z):
    """The positive parts of the real and the imaginary part."""
    return qnp.maximum(z.real, 0) + 1j * qnp.maximum(z.imag, 0)


def complex_dense(size: int):
    """A dense layer with complex weights."""
    return stax.Dense(size, glorot_normal(dtype=COMPLEX), lambda key, shape: qnp.zeros(shape, COMPLEX))


init_network, apply_network = stax.serial(
    complex_dense(64), stax.elementwise(split_relu),
    complex_dense(64), stax.elementwise(split_relu),
    complex_dense(1),
)  # fmt: skip
init_optimizer, update_optimizer, parameters_of = optimizers.adam(LEARNING_RATE)


def batch_of_matrices(key):
    """Complex matrices with normal entries, c64[64,2,2]."""
    return random.normal(key, (BATCH, 2, 2), COMPLEX)


def loss(params, matrices):
    """The mean squared error of the network's radii."""
    wanted = quire.vmap(spectral_radius)(matrices)
    found = qnp.abs(apply_network(params, matrices.reshape(BATCH, 4))[:, 0])
    return qnp.mean((found - wanted) ** 2)


@quire.compile
def train_step(i, key, state):
    """One step of Adam on a fresh batch: the optimizer's new state, and the loss before the step."""
    matrices = batch_of_matrices(random.fold_in(key, i))
    value, gradient = quire.value_and_grad(loss)(parameters_of(state), matrices)
    gradient = quire.tree.map(qnp.conj, gradient)
    return update_optimizer(i, gradient, state), value


def train(steps: int = STEPS, report=print) -> list[float]:
    """Train; returns the mean loss of each tenth of the steps. `report` is given a line a tenth."""
    key, init_key = random.split(random.key(0))
    state = init_optimizer(init_network(init_key, (BATCH, 4))[1])
    every = max(steps // 10, 1)
    losses: list[float] = []
    values = []
    start = time.perf_counter()
    for i in range(steps):
        state, value = train_step(i, key, state)
        values.append(value)
        if len(values) == every:
            losses.append(float(qnp.mean(qnp.stack(values))))
            speed = every / (time.perf_counter() - start)
            report(f"step {i + 1:6d}/{steps}  loss {losses[-1]:.4f}  {speed:7.0f} steps a second")
            values.clear()
            start = time.perf_counter()
    return losses


def main() -> None:
    gradient = quire.compile(quire.grad(spectral_radius))
    print("the gradient of the spectral radius at [[1+1j, -1], [1, 1]]:")
    print(gradient(qnp.array([[1 + 1j, -1], [1, 1]], COMPLEX)))
    losses = train(report=lambda line: print(line, flush=True))
    print(f"the loss of the last {STEPS // 10} steps is {losses[-1]:.4f}")


if __name__ == "__main__":
    main()
