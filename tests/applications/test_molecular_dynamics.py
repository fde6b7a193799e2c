"""A fluid of Lennard-Jones particles: forces by differentiation, neighbour lists, thermostat, and what is measured."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

N, NEIGHBOURS, BOX, CUTOFF = 27, 20, 4.2, 1.6


def programs(xp: Any) -> list[Program]:
    np, lax, random = xp.numpy, xp.lax, xp.random

    def displacement(a, b):
        """The shortest way between two points of a periodic box."""
        d = a - b
        return d - BOX * np.round(d / BOX)

    def pair_energy(r2):
        """Lennard-Jones', smoothed to zero at the cutoff."""
        s = 1 / np.maximum(r2, 0.5) ** 3
        x = np.clip(r2 / CUTOFF**2, 0, 1)
        return 4 * (s * s - s) * (1 - x) ** 2 * (1 + 2 * x)

    def energy_all(x):
        r2 = np.sum(displacement(x[:, None], x[None]) ** 2, -1)
        return 0.5 * np.sum(np.where(np.eye(N, dtype=bool), 0.0, pair_energy(np.where(np.eye(N, dtype=bool), 1.0, r2))))

    def neighbour_list(x, skin=0.3):
        """For each particle the others that are near, in a row padded with N; whether a row was too short."""
        r2 = np.sum(displacement(x[:, None], x[None]) ** 2, -1)
        near = (r2 < (CUTOFF + skin) ** 2) & ~np.eye(N, dtype=bool)
        order = np.argsort(~near, axis=1, stable=True)[:, :NEIGHBOURS]
        counts = near.sum(1)
        listed = np.where(np.arange(NEIGHBOURS) < counts[:, None], order, N)
        return listed.astype("int32"), np.any(counts > NEIGHBOURS)

    def pair_list(x):
        """The same as pairs, found by nonzero with a bound on their number."""
        r2 = np.sum(displacement(x[:, None], x[None]) ** 2, -1)
        i, j = np.nonzero(np.triu(r2 < CUTOFF**2, 1), size=200, fill_value=N)
        return i, j, np.sum(np.triu(r2 < CUTOFF**2, 1))

    def energy(x, neighbours):
        """The energy through a neighbour list: particle N is far away from everything."""
        padded = np.concatenate([x, np.full((1, 3), 1e3)])
        d = x[:, None] - padded[neighbours]
        d = np.where((neighbours < N)[..., None], d - BOX * np.round(d / BOX), 10.0)
        return 0.5 * np.sum(pair_energy(np.sum(d * d, -1)))

    def forces_by_pairs(x):
        """Forces added up at both ends of each pair."""
        i, j, _ = pair_list(x)
        d = displacement(x.at[i].get(mode="fill", fill_value=0.0), x.at[j].get(mode="fill", fill_value=9.0))
        pull = xp.vmap(xp.grad(lambda d: pair_energy(d @ d)))(d)
        return np.zeros_like(x).at[i].add(-pull, mode="drop").at[j].add(pull, mode="drop")

    force = xp.grad(lambda x, nl: -energy(x, nl))

    def step(state, dt=0.005):
        """Velocity Verlet; the list is made anew when a particle has moved by half the skin."""
        x, v, f, neighbours, anchor, rebuilt = state
        v = v + 0.5 * dt * f
        x = x + dt * v
        moved = np.max(np.sum(displacement(x, anchor) ** 2, -1)) > 0.02**2

        def rebuild(_):
            return neighbour_list(x)[0], x, rebuilt + 1

        neighbours, anchor, rebuilt = lax.cond(moved, rebuild, lambda _: (neighbours, anchor, rebuilt), None)
        f = force(x, neighbours)
        return x, v + 0.5 * dt * f, f, neighbours, anchor, rebuilt

    def simulate(state):
        """Positions every few steps, total energies, and how often the list was made."""

        def sample(state, _):
            state = lax.fori_loop(0, 4, lambda i, s: step(s), state)
            x, v = state[0], state[1]
            return state, (np.mod(x, BOX), energy(x, state[3]) + 0.5 * np.sum(v**2), state[5])

        return lax.scan(sample, state, None, length=5)

    def langevin(state, temperature, dt=0.01, friction=1.0):
        """A step of the BAOAB splitting; positions before and after."""
        x, v, key = state
        key, now = random.split(key)
        v = v - 0.5 * dt * xp.grad(energy_all)(x)
        middle = x + 0.5 * dt * v
        c = np.exp(-friction * dt)
        v = c * v + np.sqrt((1 - c * c) * temperature) * random.normal(now, v.shape)
        new = middle + 0.5 * dt * v
        return (new, v - 0.5 * dt * xp.grad(energy_all)(new), key), x, energy_all(x)

    def minimised(x, steps=8):
        """FIRE: steps grow while the velocity goes downhill, and stop when it does not."""

        def body(c, _):
            x, v, dt, alpha, uphill = c
            f = -xp.grad(energy_all)(x)
            power = np.sum(f * v)
            v = (1 - alpha) * v + alpha * f * np.sqrt(np.sum(v * v) / (np.sum(f * f) + 1e-9))
            good = power > 0
            dt, alpha = np.where(good, np.minimum(dt * 1.1, 0.05), dt * 0.5), np.where(good, alpha * 0.99, 0.1)
            v = np.where(good, v, 0.0) + dt * f
            return (x + dt * v, v, dt, alpha, np.where(good, uphill, uphill + 1)), energy_all(x)

        zero = np.zeros_like(x)
        return lax.scan(body, (x, zero, 0.01, 0.1, 0), None, length=steps)

    def pressure_of(scale, x):
        """The virial through a change of the box, and the stiffness."""

        def f(s):
            return energy_all(x * s)

        return xp.value_and_grad(f)(scale), xp.grad(xp.grad(f))(scale)

    def histogram(x):
        r = np.sqrt(np.sum(displacement(x[:, None], x[None]) ** 2, -1) + np.eye(N) * 100)
        counts, edges = np.histogram(r, bins=12, range=(0.0, 2.1))
        return counts / (4 * np.pi * edges[1:] ** 2), forces_by_pairs(x), pair_list(x)

    rng = onp.random.default_rng(17)
    grid = onp.stack(onp.meshgrid(*[onp.arange(3.0)] * 3), -1).reshape(-1, 3) * 1.4 + 0.5
    x = (grid + 0.05 * rng.standard_normal((N, 3))).astype(onp.float32)
    v = (0.5 * rng.standard_normal((N, 3))).astype(onp.float32)
    r = x[:, None] - x[None]
    r -= BOX * onp.round(r / BOX)
    near = (onp.sum(r * r, -1) < (CUTOFF + 0.3) ** 2) & ~onp.eye(N, dtype=bool)
    order = onp.argsort(~near, 1, kind="stable")[:, :NEIGHBOURS]
    listed = onp.where(onp.arange(NEIGHBOURS) < near.sum(1)[:, None], order, N).astype(onp.int32)
    state = (x, v, onp.zeros_like(x), listed, x, onp.int32(0))
    # Forces are differences of terms of size 50 that cancel to some 1.
    return [
        Program("simulation", simulate, (state,), rtol=2e-4),
        Program("step", lambda s: (step(s), s[0], s[5]), (state,), rtol=2e-4, step=True),
        Program("Langevin", langevin, ((x, v, onp.array([0, 3], onp.uint32)), onp.float32(0.7)), rtol=2e-4, step=True),
        Program("minimisation", minimised, (x,), rtol=2e-4),
        Program("measurements", lambda x: (pressure_of(1.0, x), histogram(x)), (x,), rtol=5e-4),
    ]


def test_molecular_dynamics():
    check(programs)
