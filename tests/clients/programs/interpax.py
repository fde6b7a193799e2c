"""interpax: splines in one and two dimensions by several methods, derivatives, extrapolation, and a gradient through knots"""

import interpax
import jax
import jax.numpy as jnp


def main():
    x = jnp.linspace(0, 3, 10)
    y = jnp.sin(x)
    q = jnp.linspace(0.1, 2.9, 13)
    out = {
        m: interpax.interp1d(q, x, y, method=m)
        for m in ("linear", "cubic", "cubic2", "akima", "monotonic", "catmull-rom")
    }
    grid = jnp.sin(x)[:, None] * jnp.cos(x)[None, :]
    return out | {
        "derivative": interpax.interp1d(q, x, y, method="cubic", derivative=1),
        "two": interpax.interp2d(q, q[::-1], x, x, grid, method="cubic"),
        "spline": interpax.CubicSpline(x, y)(q, 1),
        "gradient": jax.jit(jax.grad(lambda y: interpax.interp1d(q, x, y, method="akima").sum()))(y),
        "outside": interpax.interp1d(jnp.array([-1.0, 4.0]), x, y, extrap=True),
    }
