"""orthax: Legendre, Chebyshev and Hermite series multiplied, integrated, fitted and evaluated, quadrature, and their roots"""

import jax
import jax.numpy as jnp
import numpy as np
import orthax
from orthax import chebyshev, hermite, legendre

TOLERANCE = 5e-4

r = np.random.default_rng(0)
c1, c2 = (jnp.asarray(r.normal(size=k), jnp.float32) for k in (5, 4))
x = jnp.linspace(-1, 1, 30)
y = jnp.exp(x) * jnp.sin(3 * x)


@jax.jit
def everything(c1, c2):
    nodes, weights = legendre.leggauss(8)
    fitted = chebyshev.chebfit(x, y, 8)
    family = orthax.recurrence.Jacobi(0.5, 1.5)
    return {
        "product": legendre.legmul(c1, c2),
        "derivative": legendre.legder(c1, 2),
        "integral": legendre.legint(c1),
        "values": legendre.legval(x, c1),
        "gradient": jax.grad(lambda c: jnp.sum(chebyshev.chebval(x, c) ** 3))(c2),
        "fit": fitted,
        "fitted": chebyshev.chebval(x, fitted),
        "quadrature": jnp.sum(weights * jnp.cos(nodes)),
        "nodes": nodes,
        "Hermite": hermite.hermval(x, c2),
        "Jacobi": orthax.orthval(x, c1, family),
        "roots": jnp.sort(jnp.abs(legendre.legroots(c2))),
        "grid": chebyshev.chebgrid2d(x[:4], x[:5], jnp.outer(c1, c2)),
    }


def main():
    return everything(c1, c2)
