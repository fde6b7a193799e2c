"""Charges in a periodic box by Ewald's sums, in complex numbers, and a flow past walls by the lattice Boltzmann method."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

BOX, SPLIT, WAVES = 6.0, 0.9, 2
STEPS = onp.array([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [1, 1], [-1, 1], [-1, -1], [1, -1]])
WEIGHTS = onp.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, onp.float32)
OPPOSITE = onp.array([0, 3, 4, 1, 2, 7, 8, 5, 6])


def programs(xp: Any) -> list[Program]:
    np, lax = xp.numpy, xp.lax

    def energy(x, charges):
        """Of near pairs directly, of the rest in Fourier space."""
        d = x[:, None] - x[None]
        d = d - BOX * np.round(d / BOX)
        other = ~np.eye(len(x), dtype=bool)
        r = np.sqrt(np.where(other, np.sum(d * d, -1), 1.0))
        pairs = charges[:, None] * charges * xp.scipy.special.erfc(SPLIT * r) / r
        one = np.arange(-WAVES, WAVES + 1)
        k = np.stack(np.meshgrid(one, one, one, indexing="ij"), -1).reshape(-1, 3) * (2 * np.pi / BOX)
        k2 = np.sum(k * k, -1)
        structure = charges @ np.exp(1j * (x @ k.T))
        damping = np.where(k2 > 0, np.exp(-k2 / (4 * SPLIT**2)) / np.where(k2 > 0, k2, 1.0), 0.0)
        waves = 2 * np.pi / BOX**3 * np.sum(damping * np.abs(structure) ** 2)
        return 0.5 * np.sum(np.where(other, pairs, 0.0)) + waves - SPLIT / np.sqrt(np.pi) * np.sum(charges**2)

    def verlet(state, charges):
        """A step of the charges' motion, with the energy."""
        x, v, force = state
        v = v + 0.005 * force
        x = np.mod(x + 0.01 * v, BOX)
        value, gradient = xp.value_and_grad(energy)(x, charges)
        v = v - 0.005 * gradient
        return (x, v, -gradient), value + 0.5 * np.sum(v * v)

    def equilibrium(density, velocity):
        along = 3 * np.einsum("id,dxy->ixy", STEPS.astype("float32"), velocity)
        square = 1.5 * np.sum(velocity**2, 0)
        return density * WEIGHTS[:, None, None] * (1 + along + 0.5 * along**2 - square)

    def stream(f, walls, rate):
        """Particles move to the next cells, bounce at walls and relax."""
        f = np.stack([np.roll(f[i], tuple(int(s) for s in STEPS[i]), (0, 1)) for i in range(9)])
        density = f.sum(0)
        velocity = np.tensordot(STEPS.T.astype("float32"), f, 1) / density
        relaxed = f + rate * (equilibrium(density, velocity) - f)
        return np.where(walls, f[OPPOSITE], relaxed), velocity

    def drag(rate, f, walls):
        """How the speed after some steps changes with the rate of relaxation, by both modes."""

        def speed(rate):
            f_end, velocities = lax.scan(lambda f, _: stream(f, walls, rate), f, None, length=4)
            return np.mean(velocities[-1] ** 2) + 0.1 * np.var(f_end)

        return xp.value_and_grad(speed)(rate), xp.jvp(xp.grad(speed), (rate,), (1.0,))[1]

    rng = onp.random.default_rng(11)
    n = 9
    x = (rng.uniform(size=(n, 3)) * BOX).astype(onp.float32)
    charges = onp.where(onp.arange(n) % 2, -1.0, 0.8).astype(onp.float32)
    still = onp.zeros((n, 3), onp.float32)
    f = (WEIGHTS[:, None, None] * (1 + 0.1 * rng.standard_normal((9, 7, 17)))).astype(onp.float32)
    walls = rng.uniform(size=(7, 17)) < 0.2
    return [
        Program("charges", verlet, ((x, still, still), charges), rtol=1e-4, step=True),
        Program("flow", stream, (f, walls, onp.float32(1.3)), rtol=1e-4, step=True),
        Program("relaxation", drag, (onp.float32(1.3), f, walls), rtol=1e-3),
    ]


def test_ewald_and_lattice():
    check(programs)
