"""Electromagnetic waves in two dimensions by Yee's scheme: absorbing layers, a lens that is designed by the adjoint."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

N, STEPS, LAYER = 40, 24, 6


def programs(xp: Any) -> list[Program]:
    np, lax = xp.numpy, xp.lax

    def losses():
        """How much of a field a step leaves: everything but within the absorbing layers."""
        depth = np.maximum(LAYER - np.minimum(np.arange(N), np.arange(N)[::-1]), 0) / LAYER
        kept = np.exp(-0.6 * depth**2)
        return kept[:, None] * kept

    def step(fields, i, permittivity, wall=0.0):
        """Magnetic fields from the differences of the electric one, which ends at walls, and back again."""
        e, hx, hy = fields
        hx = hx - 0.5 * (lax.pad(e, wall, ((0, 0, 0), (-1, 1, 0))) - e)
        hy = hy + 0.5 * (lax.pad(e, wall, ((-1, 1, 0), (0, 0, 0))) - e)
        curl = hy - np.pad(hy, ((1, 0), (0, 0)))[:-1] - hx + np.pad(hx, ((0, 0), (1, 0)))[:, :-1]
        kept = losses()
        e = kept * (e + 0.5 * curl / permittivity)
        e = e.at[N // 2, LAYER + 1].add(np.sin(0.5 * i))
        return e, kept * hx, kept * hy

    def simulated(permittivity):
        fields = (np.zeros((N, N)),) * 3

        def body(fields, i):
            fields = step(fields, i, permittivity)
            return fields, fields[0][N // 2, -LAYER - 2]

        return lax.scan(body, fields, np.arange(STEPS, dtype="float32"))

    def lens(density):
        """Symmetric glass, smoothed over its neighbours, in the middle of the plane."""
        both = np.concatenate([density, density[::-1]])
        p = np.pad(both, 1, mode="edge")
        smooth = (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] + 4 * both) / 8
        glass = xp.nn.sigmoid(4 * smooth)
        low, high = N // 2 - density.shape[0], N - (N // 2 + density.shape[0])
        return 1 + np.pad(glass, ((low, high), (14, N - 14 - glass.shape[1])))

    def design(density):
        """A step that brings more power to the focus."""

        def power(d):
            return -np.sum(simulated(lens(d))[1] ** 2)

        value, gradient = xp.value_and_grad(power)(density)
        return density - 2.0 * gradient / (1e-6 + np.max(np.abs(gradient))), value

    def periodic(e, h):
        """A pulse around a ring, as one kernel of moved arrays: it comes back after as many steps as there are cells."""

        def body(i, fields):
            e, h = fields
            h = h + (np.roll(e, -1, 0) - e)
            return e + (h - np.roll(h, 1, 0)), h

        return lax.fori_loop(0, 16, body, (e, h))

    def energy_flow(e, hx, hy):
        """Poynting's vector of fields that lie between one another, in half precision, and where it points."""
        e, hx, hy = (v.astype(np.float16) for v in (e, hx, hy))
        sx = -e * 0.5 * (hy + np.roll(hy, 1, 0))
        sy = e * 0.5 * (hx + np.roll(hx, 1, 1))
        return sx, sy, (sx > sy) & ~(sx[::-1] > sy), np.argmax(np.abs(sx[1:, 1:]) + np.abs(sy[:-1, :-1]))

    rng = onp.random.default_rng(2)
    density = rng.standard_normal((8, 10)).astype(onp.float32) * 0.2
    pulse = onp.exp(-(((onp.arange(16) - 5) / 2.0) ** 2)).astype(onp.float32)[:, None] * onp.ones((1, 5), onp.float32)
    fields = rng.standard_normal((3, 17, 33)).astype(onp.float32)
    glass = (1 + rng.uniform(0, 1, (N, N))).astype(onp.float32)
    return [
        Program("simulated", simulated, (glass,), rtol=5e-5),
        Program("design", design, (density,), rtol=5e-4, step=True, reference=False),
        Program("periodic", periodic, (pulse, onp.zeros_like(pulse)), rtol=2e-5),
        Program("energy flow", energy_flow, tuple(fields), rtol=2e-3),
    ]


def test_electromagnetic_waves():
    check(programs)
