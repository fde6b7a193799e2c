"""quadax: adaptive Gauss-Kronrod, tanh-sinh and Romberg quadrature, infinite ranges, and derivatives of integrals"""

import jax
import jax.numpy as jnp
import quadax


def main():
    def f(t, a):
        return jnp.exp(-a * t**2) * jnp.cos(t)

    def integral(a):
        return quadax.quadgk(f, [0.0, 2.0], args=(a,), epsabs=1e-5, epsrel=1e-5)[0]

    t = jnp.linspace(0, 1, 21)
    return {
        "quadgk": integral(0.7),
        "derivative": jax.grad(integral)(0.7),
        "infinite": quadax.quadgk(lambda t: jnp.exp(-(t**2)), [-jnp.inf, jnp.inf], epsabs=1e-5, epsrel=1e-5)[0],
        "tanh-sinh": quadax.quadts(lambda t: jnp.sqrt(t), [0.0, 1.0], epsabs=1e-4, epsrel=1e-4)[0],
        "romberg": quadax.romberg(jnp.sin, [0.0, 1.0], epsabs=1e-5, epsrel=1e-5)[0],
        "simpson": quadax.simpson(jnp.sin(t), x=t),
        "cumulative": quadax.cumulative_trapezoid(jnp.sin(t), x=t),
    }
