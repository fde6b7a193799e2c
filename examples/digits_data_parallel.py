"""Trains the digits network on several devices: each has the weights and a part of every batch.

The same training is written in three ways, `jit` with shardings, `shard_map` and `pmap`; each loss curve is that of one
device to 1e-5. Run on simulated devices with ``python examples/digits_data_parallel.py``, four of the CPU unless
QUIRE_NUM_CPU_DEVICES says otherwise, or on one device a process with ``mpiexec -n 4 python examples/digits_data_parallel.py``.
The data: see digits_mlp.py.
"""

from __future__ import annotations

import os
from functools import partial

import numpy as np
from digits_mlp import initial_parameters, load_digits

import quire
import quire.numpy as qnp
from quire.sharding import NamedSharding
from quire.sharding import PartitionSpec as P

BATCH = 160
STEPS = 60
LEARNING_RATE = 0.2


def loss(params, pixels, labels):
    """The mean cross-entropy of f32[n,64] and i32[n]."""
    *hidden, last = params
    for layer in hidden:
        pixels = quire.nn.relu(pixels @ layer["w"] + layer["b"])
    chances = quire.nn.log_softmax(pixels @ last["w"] + last["b"])
    return -qnp.take_along_axis(chances, labels[:, None], axis=1).mean()


def descend(params, grads):
    return quire.tree.map(lambda p, g: p - LEARNING_RATE * g, params, grads)


def step(params, pixels, labels):
    """One step of gradient descent; the loss is that before the step."""
    value, grads = quire.value_and_grad(loss)(params, pixels, labels)
    return descend(params, grads), value


# -- in three ways -----------------------------------------------------------------------------------------------------


def with_shardings(mesh):
    """`step` as it is: quire divides it as its arguments are divided, and sums the gradients where that follows."""
    everywhere, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("batch"))
    return quire.jit(step, in_shardings=(everywhere, rows, rows), out_shardings=everywhere)


def with_shard_map(mesh):
    """The function of one device: `pmean` makes one loss of the devices' losses, also for the derivative."""

    def local_step(params, pixels, labels):
        def mean_loss(params):
            return quire.lax.pmean(loss(params, pixels, labels), "batch")

        value, grads = quire.value_and_grad(mean_loss)(params)
        return descend(params, grads), value

    return quire.jit(
        quire.shard_map(local_step, mesh=mesh, in_specs=(P(), P("batch"), P("batch")), out_specs=(P(), P()))
    )


def with_pmap(mesh):
    """The same by `pmap`, which takes one row of arrays a device of this process, and communicates gradients itself."""

    @partial(quire.pmap, axis_name="batch", in_axes=(None, 0, 0), out_axes=(None, None))
    def local_step(params, pixels, labels):
        value, grads = quire.value_and_grad(loss)(params, pixels, labels)
        return descend(params, quire.lax.pmean(grads, "batch")), quire.lax.pmean(value, "batch")

    here = quire.local_device_count()

    def rows_of_this_process(x):
        return x.reshape(quire.process_count(), here, -1, *x.shape[1:])[quire.process_index()]

    return lambda params, pixels, labels: local_step(params, *map(rows_of_this_process, (pixels, labels)))


def train(take_step, params, put=lambda x: x, steps=STEPS):
    """The loss before each step, f64[steps]; `put` places a batch."""
    pixels, labels = load_digits()
    rng = np.random.default_rng(1)
    losses = []
    for _ in range(steps):
        rows = rng.choice(len(pixels), BATCH, replace=False)
        params, value = take_step(params, put(pixels[rows]), put(labels[rows]))
        losses.append(value)
    return np.array([float(x) for x in losses])


def main() -> None:
    if "PMI_SIZE" in os.environ or "OMPI_COMM_WORLD_SIZE" in os.environ:  # mpiexec has started this process
        quire.distributed.initialize()
    elif "QUIRE_NUM_CPU_DEVICES" not in os.environ:
        quire.config.update("num_cpu_devices", 4)
    mesh = quire.make_mesh((quire.device_count(),), ("batch",), (quire.sharding.AxisType.Auto,))
    rows, everywhere = NamedSharding(mesh, P("batch")), NamedSharding(mesh, P())

    def put(x):
        return quire.device_put(x, rows)

    params = initial_parameters()
    shared = quire.device_put(params, everywhere)
    one = train(quire.jit(step), params)
    curves = {
        "jit with shardings": train(with_shardings(mesh), shared, put),
        "shard_map": train(with_shard_map(mesh), shared, put),
        "pmap": train(with_pmap(mesh), params),
    }
    if quire.process_index() == 0:
        print(f"{mesh.size} devices, loss of one device: {one[0]:.4f} .. {one[-1]:.4f}")
    for name, curve in curves.items():
        np.testing.assert_allclose(curve, one, rtol=0, atol=1e-5, err_msg=name)
        if quire.process_index() == 0:
            print(f"{name:18}  loss {curve[-1]:.4f}, differs by at most {abs(curve - one).max():.1e}")


if __name__ == "__main__":
    main()
