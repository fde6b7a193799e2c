"""quadax: Gauss-Kronrod, Clenshaw-Curtis, tanh-sinh and Romberg quadrature, infinite ranges, sampled data, and gradients"""

import jax
import jax.numpy as jnp
import quadax


def peaked(t, a):
    return jnp.exp(-a * (t - 0.3) ** 2) * jnp.cos(3 * t)


@jax.jit
def everything(a):
    def by(method, interval=(0.0, 1.0)):
        return method(peaked, interval, args=(a,), epsabs=1e-5, epsrel=1e-5)[0]

    x = jnp.linspace(0, 2, 33)
    return {
        "quadgk": by(quadax.quadgk),
        "quadcc": by(quadax.quadcc),
        "quadts": by(quadax.quadts),
        "romberg": quadax.romberg(peaked, (0.0, 1.0), args=(a,), epsabs=1e-4, epsrel=1e-4)[0],
        "infinite": by(quadax.quadgk, (-jnp.inf, jnp.inf)),
        "gradient": jax.grad(lambda a: quadax.quadgk(peaked, (0.0, 1.0), args=(a,), epsabs=1e-5, epsrel=1e-5)[0])(a),
        "simpson": quadax.simpson(jnp.sin(x) * a, x=x),
        "cumulative": quadax.cumulative_simpson(jnp.sin(x), x=x),
    }


def main():
    return everything(jnp.float32(7.0))
