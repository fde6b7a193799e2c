"""optimistix: Newton, Chord and Dogleg roots, BFGS, Levenberg-Marquardt, a fixed point, and the gradient through a root"""

import jax
import jax.numpy as jnp
import optimistix as optx


def equations(y, args):
    a, b = y
    return jnp.stack([a**2 + b * args - 2, jnp.sin(a) + b - 1])


def residuals(y, args):
    t = jnp.linspace(0, 2, 12)
    return y[0] * jnp.exp(-y[1] * t) - 2.0 * jnp.exp(-0.7 * t)


def rosenbrock(y, args):
    return (1 - y[0]) ** 2 + 10 * (y[1] - y[0] ** 2) ** 2


def main():
    y0 = jnp.array([0.5, 0.2])
    root = jax.jit(lambda a: optx.root_find(equations, optx.Newton(1e-6, 1e-6), y0, a).value)
    return {
        "newton": root(0.5),
        "chord": optx.root_find(equations, optx.Chord(1e-4, 1e-4), y0, 0.5, max_steps=300, throw=False).value,
        "dogleg": optx.root_find(equations, optx.Dogleg(1e-6, 1e-6), y0, 0.5).value,
        "bisection": optx.root_find(
            lambda x, _: x**3 - 2, optx.Bisection(1e-6, 1e-6), 1.0, options={"lower": 0.0, "upper": 2.0}
        ).value,
        "derivative": jax.jacrev(root)(0.5),
        "fixed point": optx.fixed_point(
            lambda y, _: jnp.cos(y), optx.FixedPointIteration(1e-6, 1e-6), jnp.array(0.5)
        ).value,
        "levenberg": optx.least_squares(residuals, optx.LevenbergMarquardt(1e-6, 1e-6), jnp.array([1.0, 1.0])).value,
        "bfgs": optx.minimise(rosenbrock, optx.BFGS(1e-5, 1e-5), y0, max_steps=500).value,
        "gradient": jax.grad(
            lambda a: optx.least_squares(lambda y, a: y - a**2, optx.GaussNewton(1e-6, 1e-6), y0, a).value.sum()
        )(y0),
    }
