"""Heat on a square plate, divided over a grid of devices: `shard_map`, borders exchanged by `ppermute`, and a gradient.

Each device holds a rectangle of the temperatures, f32[96/rows,96/columns]. Before each step it is given the border rows and
columns of its neighbours; the plate's edge is held at 0. `grad` goes through all of it: by how much a change of each initial
temperature changes the squared difference from a measured field. Both are checked against the undivided program.
Run on simulated devices with ``python examples/heat_halo.py``, or on one device a process with
``mpiexec -n 4 python examples/heat_halo.py``.
"""

from __future__ import annotations

import os

import numpy as np

import quire
import quire.numpy as qnp
from quire import lax
from quire.sharding import NamedSharding
from quire.sharding import PartitionSpec as P

SIZE = 96
STEPS = 100
RATE = 0.2


def laplacian(padded):
    """The sum of the four neighbours less four times the middle: f32[m+2,n+2] to f32[m,n]."""
    middle = padded[1:-1, 1:-1]
    return padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:] - 4 * middle


def heat(field, padded):
    """The field after `STEPS` steps; `padded` puts a border of one element around it."""
    return lax.fori_loop(0, STEPS, lambda _, u: u + RATE * laplacian(padded(u)), field)


def error(field, measured, padded):
    """Half the sum of squared differences of the field that `field` becomes from the measured one."""
    return ((heat(field, padded) - measured) ** 2).sum() / 2


# -- undivided, and on the devices of a mesh ---------------------------------------------------------------------------


def cold_edge(field):
    return qnp.pad(field, 1)


def whole_error(field, measured):
    return error(field, measured, cold_edge)


def with_neighbours(field):
    """One device's rectangle between the borders of its neighbours; where there is no neighbour ppermute gives zeros."""
    for dim, axis in enumerate(("rows", "columns")):
        n = lax.axis_size(axis)
        first = lax.slice_in_dim(field, 0, 1, axis=dim)
        last = lax.slice_in_dim(field, field.shape[dim] - 1, field.shape[dim], axis=dim)
        before = lax.ppermute(last, axis, [(i, i + 1) for i in range(n - 1)])
        after = lax.ppermute(first, axis, [(i + 1, i) for i in range(n - 1)])
        field = qnp.concatenate([before, field, after], axis=dim)
    return field


def divided_error(mesh):
    """`whole_error` as a function of arrays divided over the mesh."""

    def local(field, measured):
        return lax.psum(error(field, measured, with_neighbours), ("rows", "columns"))

    tiles = P("rows", "columns")
    return quire.shard_map(local, mesh=mesh, in_specs=(tiles, tiles), out_specs=P())


def fields():
    """An initial field with two hot spots, and a "measured" one: f32[SIZE,SIZE] each."""
    y, x = np.mgrid[:SIZE, :SIZE] / SIZE
    spots = np.exp(-((y - 0.3) ** 2 + (x - 0.4) ** 2) * 60) + np.exp(-((y - 0.7) ** 2 + (x - 0.52) ** 2) * 90)
    measured = 0.4 * np.exp(-((y - 0.5) ** 2 + (x - 0.5) ** 2) * 20)
    return spots.astype(np.float32), measured.astype(np.float32)


def grid(devices: int) -> tuple[int, int]:
    """The two factors of a number of devices that are nearest to each other."""
    rows = max(k for k in range(1, int(devices**0.5) + 1) if devices % k == 0)
    return rows, devices // rows


def main() -> None:
    if "PMI_SIZE" in os.environ or "OMPI_COMM_WORLD_SIZE" in os.environ:  # mpiexec has started this process
        quire.distributed.initialize()
    elif "QUIRE_NUM_CPU_DEVICES" not in os.environ:
        quire.config.update("num_cpu_devices", 4)
    mesh = quire.make_mesh(grid(quire.device_count()), ("rows", "columns"), (quire.sharding.AxisType.Auto,) * 2)
    tiles = NamedSharding(mesh, P("rows", "columns"))
    field, measured = fields()
    placed = [quire.make_array_from_callback(x.shape, tiles, lambda index, x=x: x[index]) for x in (field, measured)]
    whole, whole_grad = quire.jit(quire.value_and_grad(whole_error))(field, measured)
    value, gradient = quire.jit(quire.value_and_grad(divided_error(mesh)))(*placed)
    whole_grad, worst = np.asarray(whole_grad), 0.0
    for part in gradient.addressable_shards:
        worst = max(worst, float(abs(np.asarray(part.data) - whole_grad[part.index]).max()))
    assert abs(float(value) - float(whole)) <= 1e-5 * float(whole), (value, whole)
    assert worst <= 1e-5 * abs(whole_grad).max(), worst
    if quire.process_index() == 0:
        print(f"{SIZE}x{SIZE} plate on {mesh.shape['rows']}x{mesh.shape['columns']} devices, {STEPS} steps")
        print(f"error {float(value):.4f}, undivided {float(whole):.4f}; gradients differ by at most {worst:.1e}")


if __name__ == "__main__":
    main()
