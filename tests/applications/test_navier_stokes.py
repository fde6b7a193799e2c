"""Two-dimensional turbulence by a pseudo-spectral method, and the adjoint of its solver."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

N = 16


def programs(xp: Any) -> list[Program]:
    np, lax = xp.numpy, xp.lax
    fft = np.fft

    kx = np.asarray(onp.fft.fftfreq(N, 1 / N).astype(onp.float32))[:, None]
    ky = np.asarray(onp.fft.rfftfreq(N, 1 / N).astype(onp.float32))[None, :]
    k2 = kx**2 + ky**2
    inverse_k2 = np.where(k2 == 0, 0.0, 1 / np.where(k2 == 0, 1.0, k2))
    kept = (np.abs(kx) < N / 3) & (np.abs(ky) < N / 3)

    def velocity(vorticity_hat):
        """The velocity of a vorticity, through its stream function."""
        stream = vorticity_hat * inverse_k2
        return fft.irfft2(1j * ky * stream, (N, N)), fft.irfft2(-1j * kx * stream, (N, N))

    def tendency(vorticity_hat, forcing_hat):
        """Advection in physical space, with the two-thirds rule, and the forcing."""
        u, v = velocity(vorticity_hat)
        dx = fft.irfft2(1j * kx * vorticity_hat, (N, N))
        dy = fft.irfft2(1j * ky * vorticity_hat, (N, N))
        return forcing_hat - np.where(kept, fft.rfft2(u * dx + v * dy), 0.0)

    def step(state, viscosity, forcing_hat, dt=0.05):
        """Adams and Bashforth's step of order two for the advection, an integrating factor for the diffusion."""
        vorticity_hat, before = state
        now = tendency(vorticity_hat, forcing_hat)
        decay = np.exp(-viscosity * k2 * dt)
        return decay * (vorticity_hat + dt * (1.5 * now - 0.5 * decay * before)), now

    def started(vorticity):
        """The state at the beginning: its tendency is not known yet."""
        vorticity_hat = fft.rfft2(vorticity)
        return vorticity_hat, np.zeros_like(vorticity_hat)

    def forcing(amplitude):
        x = np.arange(N, dtype=np.float32) * (2 * np.pi / N)
        return fft.rfft2(amplitude * np.cos(2 * x)[None, :] * np.ones((N, 1), np.float32))

    def simulate(vorticity, viscosity, amplitude, steps=12):
        """The vorticity at the end, and energy and enstrophy on the way."""
        force = forcing(amplitude)

        def body(state, _):
            stream = state[0] * inverse_k2
            diagnostics = np.sum(np.abs(state[0] * stream)), np.sum(np.abs(state[0]) ** 2), state[1][1, 1]
            return step(state, viscosity, force), diagnostics

        (end, _), diagnostics = lax.scan(body, started(vorticity), None, length=steps)
        return fft.irfft2(end, (N, N)), diagnostics

    def misfit(vorticity, viscosity, amplitude, observed):
        end, diagnostics = simulate(vorticity, viscosity, amplitude)
        return np.mean((end - observed) ** 2) + 1e-4 * diagnostics[0][-1], (end, diagnostics)

    def march(state, viscosity):
        """One step of a simulation with its history in a buffer: the new state beside the old vorticity."""
        inner, history, n = state
        new = step(inner, viscosity, forcing(0.2))
        history = history.at[n % 3].set(fft.irfft2(inner[0], (N, N)))
        return (new, history, n + 1), inner[0], history[(n + 1) % 3]

    rng = onp.random.default_rng(0)
    x = onp.arange(N) * (2 * onp.pi / N)
    w0 = (onp.sin(x)[:, None] * onp.cos(2 * x)[None, :] * 2 + 0.3 * rng.standard_normal((N, N))).astype(onp.float32)
    observed = (0.5 * rng.standard_normal((N, N))).astype(onp.float32)
    nu, amplitude = onp.float32(0.05), onp.float32(0.3)
    spectrum = onp.fft.rfft2(w0).astype(onp.complex64)
    state = ((spectrum, onp.zeros_like(spectrum)), onp.zeros((3, N, N), onp.float32), onp.int32(0))
    gradients = xp.value_and_grad(misfit, argnums=(0, 1, 2), has_aux=True)
    return [
        Program("adjoint", gradients, (w0, nu, amplitude, observed), rtol=5e-5),
        Program("march", march, (state, nu), step=True),
    ]


def test_navier_stokes():
    check(programs)
