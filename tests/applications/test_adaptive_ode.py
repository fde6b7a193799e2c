"""Dormand and Prince's adaptive method: steps as long as they need be, sensitivities forward and backward, events."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

# The tableau: nodes, coefficients of the stages, weights of order five, and their difference from order four.
NODES = onp.array([0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1], onp.float32)
STAGES = onp.zeros((7, 7), onp.float32)
STAGES[1, :1] = [1 / 5]
STAGES[2, :2] = [3 / 40, 9 / 40]
STAGES[3, :3] = [44 / 45, -56 / 15, 32 / 9]
STAGES[4, :4] = [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729]
STAGES[5, :5] = [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656]
STAGES[6, :6] = [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84]
ERROR = onp.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40], onp.float32)


def programs(xp: Any) -> list[Program]:
    np, lax = xp.numpy, xp.lax

    def oscillator(t, y, mu):
        """Van der Pol's, driven."""
        return np.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0] + 0.3 * np.cos(t)])

    def stages(f, t, y, h, *args):
        """The slopes at the seven nodes, one after the other in one buffer."""

        def body(i, k):
            return k.at[i].set(f(t + np.asarray(NODES)[i] * h, y + h * (np.asarray(STAGES)[i] @ k), *args))

        return lax.fori_loop(1, 7, body, np.zeros((7, y.size)).at[0].set(f(t, y, *args)))

    def attempt(f, t, y, h, tol, *args):
        """A step, whether it is good enough, and the length to go on with."""
        k = stages(f, t, y, h, *args)
        new = y + h * (np.asarray(STAGES)[6] @ k)
        scale = tol * (1 + np.maximum(np.abs(y), np.abs(new)))
        error = np.sqrt(np.mean((h * (ERROR @ k) / scale) ** 2))
        factor = np.clip(0.9 * (error + 1e-10) ** -0.2, 0.2, 5.0)
        return new, error <= 1, lax.stop_gradient(h * factor), k

    def solve(f, y0, t1, *args, tol=1e-3):
        """The state at t1, with counts of good and bad steps and the last accepted times in a buffer."""

        def unfinished(carry):
            return (carry[0] < t1) & (carry[3] + carry[4] < 200)

        def body(carry):
            t, y, h, good, bad, times = carry
            last = t + h >= t1
            h = np.where(last, t1 - t, h)
            new, ok, longer, _ = attempt(f, t, y, h, tol, *args)
            times = np.where(ok, np.roll(times, 1).at[0].set(t), times)
            t = np.where(ok, np.where(last, t1, t + h), t)
            return t, np.where(ok, new, y), longer, good + ok, bad + ~ok, times

        start = (0.0, y0, 0.1, 0, 0, np.zeros(6))
        t, y, h, good, bad, times = lax.while_loop(unfinished, body, start)
        return y, (t, good, bad, times)

    def forward_sensitivity(y0, mu):
        """How the end depends on the parameter: a derivative through the loop as it ran."""
        (y, stats), (dy, _) = xp.jvp(lambda mu: solve(oscillator, y0, 3.0, mu), (mu,), (1.0,))
        return y, stats, dy

    def bounded(y0, mu, t1, steps=40):
        """The same method in a scan of so many steps, those after the end doing nothing: it can be differentiated backward."""

        def body(carry, _):
            t, y, h = carry

            def advance(_):
                step = np.minimum(h, t1 - t)
                new, ok, longer, _ = attempt(oscillator, t, y, step, 1e-3, mu)
                return (np.where(ok, t + step, t), np.where(ok, new, y), longer), ok

            carry, ok = lax.cond(t < t1 - 1e-6, advance, lambda _: ((t, y, h), False), None)
            return carry, (t, y, ok)

        (t, y, _), path = lax.scan(body, (0.0, y0, 0.1), None, length=steps)
        return y, (t, path)

    def loss(y0, mu):
        y, (t, path) = bounded(y0, mu, 3.0)
        return np.sum((y - np.array([0.5, -0.5])) ** 2) + 0.01 * np.mean(path[1] ** 2), (y, t)

    def adjoint(y0, mu):
        """The gradient of the end state's norm by the adjoint equation, solved backward with the state."""
        y1, _ = solve(oscillator, y0, 3.0, mu)

        def backward(s, z, mu):
            y, a = z[:2], z[2:4]
            dy, pull = xp.vjp(lambda y, m: oscillator(3.0 - s, y, m), y, mu)
            da, dm = pull(a)
            return np.concatenate([-dy, da, dm[None]])

        z, stats = solve(backward, np.concatenate([y1, 2 * y1, np.zeros(1)]), 3.0, mu, tol=1e-4)
        return y1, z[2:4], z[4], stats[1]

    def falling(height, restitution):
        """A bouncing ball: each flight ends at an event, found by bisection inside the loop over flights."""

        def flight(carry, _):
            h, v, t = carry

            def at(s):
                return h + v * s - 4.905 * s**2

            lo, hi = lax.fori_loop(
                0, 20, lambda i, b: (lambda m: (np.where(at(m) > 0, m, b[0]), np.where(at(m) > 0, b[1], m)))(0.5 * (b[0] + b[1])),
                (0.01, 5.0),
            )  # fmt: skip
            s = lax.stop_gradient(hi)
            s = s + at(s) / (9.81 * s - v)  # one step of Newton's gives the derivative of the root
            bounce = -restitution * (v - 9.81 * s)
            return (0.0 * h, bounce, t + s), (s, bounce)

        (_, v, t), flights = lax.scan(flight, (height, 0.0, 0.0), None, length=4)
        return t + v, flights

    y0 = onp.array([1.0, 0.0], onp.float32)
    mu = onp.float32(1.5)
    starts = onp.array([[1.0, 0.0], [2.0, -1.0], [-0.5, 0.5]], onp.float32)
    # A rounding in the error estimate changes a step's length, and the derivative by the parameter is a difference of
    # terms some ten times its size.
    return [
        Program("sensitivity", forward_sensitivity, (y0, mu), rtol=2e-3),
        Program(
            "ensemble", lambda ys, mu: xp.vmap(lambda y: solve(oscillator, y, 3.0, mu))(ys), (starts, mu), rtol=1e-4
        ),
        Program("backward", xp.value_and_grad(loss, argnums=(0, 1), has_aux=True), (y0, mu), rtol=1e-2),
        Program("adjoint equation", adjoint, (y0, mu), rtol=1e-3),
        Program(
            "bounces",
            xp.value_and_grad(falling, argnums=(0, 1), has_aux=True),
            (onp.float32(2.0), onp.float32(0.8)),
            1e-4,
        ),
    ]


def test_adaptive_ode():
    check(programs)
