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

    def step(vorticity_hat, viscosity, forcing_hat, dt):
        """Runge-Kutta of order two for the advection, an integrating factor for the diffusion."""
        decay = np.exp(-viscosity * k2 * dt)
        first = tendency(vorticity_hat, forcing_hat)
        guess = decay * (vorticity_hat + dt * first)
        second = tendency(guess, forcing_hat)
        return decay * vorticity_hat + 0.5 * dt * (decay * first + second)

    def forcing(amplitude):
        x = np.arange(N, dtype=np.float32) * (2 * np.pi / N)
        return fft.rfft2(amplitude * np.cos(2 * x)[None, :] * np.ones((N, 1), np.float32))

    def simulate(vorticity, viscosity, amplitude, steps=12, dt=0.05):
        """The vorticity at the end, and energy and enstrophy on the way."""
        force = forcing(amplitude)

        def body(w, _):
            u, v = velocity(w)
            new = step(w, viscosity, force, dt)
            z = fft.irfft2(new, (N, N))
            return new, (0.5 * np.mean(u**2 + v**2), np.mean(z**2))

        end, diagnostics = lax.scan(body, fft.rfft2(vorticity), None, length=steps)
        return fft.irfft2(end, (N, N)), diagnostics

    def misfit(vorticity, viscosity, amplitude, observed):
        end, (energy, _) = simulate(vorticity, viscosity, amplitude)
        return np.mean((end - observed) ** 2) + 0.1 * energy[-1]

    def checkpointed(vorticity, viscosity, observed):
        """The same loss with the states of the inner loops computed anew in the backward pass."""
        force = forcing(0.3)

        def outer(w, _):
            return lax.fori_loop(0, 4, lambda i, w: step(w, viscosity, force, 0.05), w), np.sum(np.abs(w) ** 2)

        end, power = lax.scan(xp.checkpoint(outer), fft.rfft2(vorticity), None, length=3)
        return np.mean((fft.irfft2(end, (N, N)) - observed) ** 2) + 1e-4 * np.mean(power)

    def march(state, viscosity):
        """One step of a simulation with its history in a buffer: the new state beside the old vorticity."""
        w, history, n = state
        new = step(w, viscosity, forcing(0.2), 0.05)
        history = history.at[n % 3].set(fft.irfft2(w, (N, N)))
        return (new, history, n + 1), w, history[(n + 1) % 3]

    rng = onp.random.default_rng(0)
    x = onp.arange(N) * (2 * onp.pi / N)
    w0 = (onp.sin(x)[:, None] * onp.cos(2 * x)[None, :] * 2 + 0.3 * rng.standard_normal((N, N))).astype(onp.float32)
    observed = (0.5 * rng.standard_normal((N, N))).astype(onp.float32)
    nu, amplitude = onp.float32(0.05), onp.float32(0.3)
    state = (onp.fft.rfft2(w0).astype(onp.complex64), onp.zeros((3, N, N), onp.float32), onp.int32(0))
    return [
        Program("simulate", simulate, (w0, nu, amplitude)),
        Program("adjoint", xp.value_and_grad(misfit, argnums=(0, 1, 2)), (w0, nu, amplitude, observed)),
        Program("checkpointed adjoint", xp.value_and_grad(checkpointed, argnums=(0, 1)), (w0, nu, observed)),
        Program("sensitivity", lambda w, a: xp.jvp(lambda a: simulate(w, nu, a)[0], (a,), (1.0,)), (w0, amplitude)),
        Program("march", march, (state, nu), step=True),
    ]


def test_navier_stokes():
    check(programs)
