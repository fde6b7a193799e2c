"""jax-md: a Lennard-Jones fluid relaxed by FIRE and run by NVE and Nose-Hoover, with neighbour lists; forces by grad"""

import jax
import jax.numpy as jnp
import numpy as np
from jax_md import energy, minimize, partition, quantity, simulate, space

BOX = 5.0


def main():
    displacement, shift = space.periodic(BOX)
    grid = np.stack(np.meshgrid(*[np.arange(3)] * 3), -1).reshape(-1, 3) * (BOX / 3)
    start = jnp.asarray(grid + np.random.default_rng(0).normal(size=grid.shape) * 0.05, jnp.float32)
    full = energy.lennard_jones_pair(displacement, r_cutoff=2.2, r_onset=1.8)
    neighbor_fn, listed = energy.lennard_jones_neighbor_list(displacement, BOX, r_cutoff=2.2, r_onset=1.8, dr_threshold=0.2,
                                                             format=partition.Dense)  # fmt: skip
    neighbors = neighbor_fn.allocate(start)
    soft = energy.soft_sphere_pair(displacement, sigma=1.8)
    init, apply = minimize.fire_descent(soft, shift)
    state = jax.lax.fori_loop(0, 30, lambda i, s: apply(s), init(start))
    init, apply = simulate.nve(soft, shift, 2e-3)
    moving = jax.lax.fori_loop(0, 40, lambda i, s: apply(s), init(jax.random.PRNGKey(0), state.position, kT=0.3))
    init, thermostat = simulate.nvt_nose_hoover(soft, shift, 2e-3, 0.3)
    warm = jax.lax.fori_loop(0, 10, lambda i, s: thermostat(s), init(jax.random.PRNGKey(1), state.position))
    return {
        "energy": full(start),
        "by neighbours": listed(start, neighbor=neighbors),
        "forces": quantity.force(full)(start),
        "relaxed": soft(state.position),
        "moved": moving.position,
        "temperature": quantity.temperature(momentum=moving.momentum),
        "thermostat": warm.position[:5],
        "invariant": simulate.nvt_nose_hoover_invariant(soft, warm, 0.3),
    }
