"""Swing-up of a cart-pole: L-BFGS with its history in arrays, a line search, iLQR, and model-predictive control."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

T, MEMORY = 16, 5


def programs(xp: Any) -> list[Program]:
    np, lax, random = xp.numpy, xp.lax, xp.random

    def dynamics(x, u, dt=0.1):
        """Cart and pole, by the semi-implicit Euler method."""
        pos, angle, v, w = x
        s, c = np.sin(angle), np.cos(angle)
        total = 1.0 + 0.1 * s**2
        acc = (u + 0.1 * s * (0.5 * w**2 + 9.81 * c)) / total
        alpha = (-u * c - 0.05 * w**2 * s * c - 1.1 * 9.81 * s) / (0.5 * total)
        v, w = v + dt * acc, w + dt * alpha
        return np.stack([pos + dt * v, angle + dt * w, v, w])

    def stage(x, u):
        return 0.05 * (1 + np.cos(x[1])) ** 2 + 0.01 * x[0] ** 2 + 0.005 * x[3] ** 2 + 0.01 * u**2

    def cost(us, x0):
        x, costs = lax.scan(lambda x, u: (dynamics(x, u), stage(x, u)), x0, us)
        return np.sum(costs) + 10 * stage(x, 0.0)

    def direction(g, ss, ys, rhos, gamma, stored):
        """The two-loop recursion over a history whose newest pair is the last."""

        def down(i, c):
            q, alphas = c
            k = MEMORY - 1 - i
            a = rhos[k] * (ss[k] @ q)
            return q - a * ys[k], alphas.at[k].set(a)

        q, alphas = lax.fori_loop(0, stored, down, (g, np.zeros(MEMORY)))

        def up(i, r):
            k = MEMORY - stored + i
            return r + ss[k] * (alphas[k] - rhos[k] * (ys[k] @ r))

        return -lax.fori_loop(0, stored, up, gamma * q)

    def line_search(f, x, p, value, slope):
        """Halve the step until the value falls enough."""

        def unfit(c):
            a, new = c
            return (new > value + 1e-4 * a * slope) & (a > 1e-4)

        return lax.while_loop(unfit, lambda c: (c[0] / 2, f(x + c[0] / 2 * p)), (1.0, f(x + p)))

    def lbfgs(f, x, iterations):
        """The path of L-BFGS: position, value and gradient at the end, and the values and steps of all iterations."""

        def body(c, _):
            x, value, g, ss, ys, rhos, gamma, stored = c
            p = direction(g, ss, ys, rhos, gamma, stored)
            slope = g @ p
            p, slope = np.where(slope < 0, p, -g), np.where(slope < 0, slope, -g @ g)
            a, new_value = line_search(f, x, p, value, slope)
            new = x + a * p
            new_g = xp.grad(f)(new)
            s, y = new - x, new_g - g
            good = s @ y > 1e-6
            ss2 = np.roll(ss, -1, 0).at[-1].set(s)
            ys2 = np.roll(ys, -1, 0).at[-1].set(y)
            rhos2 = np.roll(rhos, -1).at[-1].set(1 / np.where(good, s @ y, 1.0))
            ss, ys, rhos = (np.where(good, n, o) for n, o in ((ss2, ss), (ys2, ys), (rhos2, rhos)))
            gamma = np.where(good, s @ y / np.maximum(y @ y, 1e-9), gamma)
            stored = np.minimum(stored + good, MEMORY)
            return (new, new_value, new_g, ss, ys, rhos, gamma, stored), (value, a, g @ g)

        history = np.zeros((MEMORY, x.size))
        start = (x, *xp.value_and_grad(f)(x), history, history, np.zeros(MEMORY), 0.1, 0)
        return lax.scan(body, start, None, length=iterations)

    def plan(us, x0):
        return lbfgs(lambda us: cost(us, x0), us, 6)

    def rosenbrock(x0):
        """The same method on Rosenbrock's valley, from many starts."""

        def f(x):
            return np.sum(5 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

        end, seen = lbfgs(f, x0, 8)
        return end[0], end[1], end[7], seen[0]

    def ilqr(us, x0, iterations=3):
        """Differential dynamic programming without second derivatives of the dynamics."""

        def iteration(us, _):
            _, xs = lax.scan(lambda x, u: (dynamics(x, u), x), x0, us)
            end = dynamics(xs[-1], us[-1])
            A, B = xp.vmap(xp.jacfwd(dynamics, argnums=(0, 1)))(xs, us)
            lx, lu = xp.vmap(xp.grad(stage, argnums=(0, 1)))(xs, us)
            lxx, luu = xp.vmap(xp.hessian(stage))(xs, us), xp.vmap(xp.grad(xp.grad(stage, 1), 1))(xs, us)

            def back(c, inputs):
                V, v = c
                A, B, lx, lu, lxx, luu = inputs
                qx, qu = lx + A.T @ v, lu + B @ v
                qxx, quu, qux = lxx + A.T @ V @ A, luu + B @ V @ B + 0.1, B @ V @ A
                k, K = -qu / quu, -qux / quu
                return (qxx + np.outer(K, qux), qx + K * qu), (k, K)

            final = (10 * xp.hessian(stage)(end, 0.0), 10 * xp.grad(stage)(end, 0.0))
            _, (k, K) = lax.scan(back, final, (A, B, lx, lu, lxx, luu), reverse=True)

            def forward(c, inputs):
                x, total = c
                old, u, k, K = inputs
                u = u + 0.5 * k + K @ (x - old)
                return (dynamics(x, u), total + stage(x, u)), u

            (x, total), new = lax.scan(forward, (x0, 0.0), (xs, us, k, K))
            return new, (total, us)

        return lax.scan(iteration, us, None, length=iterations)

    def control(state, target):
        """One step of sampling control (MPPI): plans are perturbed, weighed, averaged and shifted by one."""
        us, x, key = state
        key, now = random.split(key)
        noise = 0.5 * random.normal(now, (24, T))
        costs = xp.vmap(lambda n: cost(us + n, x) + 0.1 * (x[0] - target) ** 2)(noise)
        weights = xp.nn.softmax(-costs)
        us = us + weights @ noise
        return (np.roll(us, -1).at[-1].set(0.0), dynamics(x, us[0]), key), us, costs.min()

    # The history holds differences of gradients that are a hundredth of the gradients: so much is rounding amplified.
    us = (0.5 * onp.sin(onp.arange(T))).astype(onp.float32)
    x0 = onp.array([0.0, 0.2, 0.0, 0.0], onp.float32)
    starts = onp.random.default_rng(13).uniform(-1, 1, (3, 4)).astype(onp.float32)
    return [
        Program("gradient", xp.value_and_grad(cost, argnums=(0, 1)), (us, x0)),
        Program("L-BFGS", plan, (us, x0), rtol=2e-2),
        Program("many starts", xp.vmap(rosenbrock), (starts,), rtol=2e-3),
        Program("iLQR", ilqr, (us, x0), rtol=1e-3),
        Program(
            "sampling control", control, ((us, x0, onp.array([0, 1], onp.uint32)), onp.float32(0.5)), 1e-4, step=True
        ),
    ]


def test_optimal_control():
    check(programs)
