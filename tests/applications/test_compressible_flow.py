"""Compressible flow in one dimension by finite volumes with limited slopes, and the gradient of where it ends."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

GAMMA = 1.4


def programs(xp: Any) -> list[Program]:
    np, lax = xp.numpy, xp.lax

    def primitive(u):
        density, momentum, energy = u
        velocity = momentum / density
        return density, velocity, (GAMMA - 1) * (energy - 0.5 * density * velocity**2)

    def flux(u):
        _, velocity, pressure = primitive(u)
        return np.stack([u[1], u[1] * velocity + pressure, velocity * (u[2] + pressure)])

    def speed(u):
        density, velocity, pressure = primitive(u)
        return np.abs(velocity) + np.sqrt(GAMMA * pressure / density)

    def minmod(a, b):
        return np.where(a * b > 0, np.sign(a) * np.minimum(np.abs(a), np.abs(b)), 0.0)

    def step(u, courant):
        """Rusanov's fluxes of linear reconstructions; the step follows from the fastest wave."""
        fastest = np.max(speed(u))
        slope = minmod(u - np.roll(u, 1, 1), np.roll(u, -1, 1) - u)
        left, right = u + 0.5 * slope, np.roll(u - 0.5 * slope, -1, 1)
        wave = np.maximum(speed(left), speed(right))
        through = 0.5 * (flux(left) + flux(right)) - 0.5 * wave * (right - left)
        return u - courant / fastest * (through - np.roll(through, 1, 1)), fastest

    def shocks(u):
        """Where the pressure jumps: the opening and closing of an indicator, by windows of windows."""
        pressure = primitive(u)[2]
        jump = np.abs(np.roll(pressure, -1) - pressure)

        def grown(x):
            return lax.reduce_window(x, -np.inf, lax.max, (3,), (1,), "SAME")

        def shrunk(x):
            return lax.reduce_window(x, np.inf, lax.min, (3,), (1,), "SAME")

        return grown(shrunk(shrunk(grown(jump))))

    def misfit(u, courant, observed):
        end, fastest = lax.scan(lambda u, _: step(u, courant), u, None, length=6)
        return np.mean((end[0] - observed) ** 2), (end, fastest, shocks(end))

    def march(u, courant):
        new, fastest = step(u, courant)
        return new, fastest, shocks(new)

    x = onp.linspace(0, 2 * onp.pi, 32, endpoint=False)
    u = onp.stack([1 + 0.3 * onp.sin(x), 0.2 * onp.cos(x), 2.5 + 0.3 * onp.sin(2 * x)]).astype(onp.float32)
    observed = (1 + 0.2 * onp.cos(x)).astype(onp.float32)
    courant = onp.float32(0.4)
    return [
        Program("adjoint", xp.value_and_grad(misfit, argnums=(0, 1), has_aux=True), (u, courant, observed), rtol=5e-5),
        Program("march", march, (u, courant), step=True),
    ]


def test_compressible_flow():
    check(programs)
