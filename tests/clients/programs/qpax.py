"""qpax: quadratic programs with equalities and inequalities solved in batches, elastic ones, and gradients through the solution"""

import jax
import jax.numpy as jnp
import numpy as np
import qpax

TOLERANCE = 1e-3

r = np.random.default_rng(0)
n, m, p = 6, 2, 8
L = r.normal(size=(n, n))
Q = jnp.asarray(L @ L.T + np.eye(n), jnp.float32)
q = jnp.asarray(r.normal(size=(5, n)), jnp.float32)
A = jnp.asarray(r.normal(size=(m, n)), jnp.float32)
b = jnp.asarray(0.1 * r.normal(size=m), jnp.float32)
G = jnp.asarray(r.normal(size=(p, n)), jnp.float32)
h = jnp.asarray(r.uniform(1, 2, p), jnp.float32)


@jax.jit
def solve(q):
    x, s, z, y, converged, _ = qpax.solve_qp(Q, q, A, b, G, h, solver_tol=1e-4)
    return x, s, z, y, converged


@jax.jit
def cost(q):
    x = qpax.solve_qp_primal(Q, q, A, b, G, h, solver_tol=1e-4, target_kappa=1e-3)
    return jnp.sum(x**2) + x[0]


def main():
    x, s, z, y, converged = jax.vmap(solve)(q)
    return {
        "x": x,
        "slack": s * z,
        "y": y,
        "converged": converged,
        "gradient": jax.grad(cost)(q[0]),
        "second": jax.vmap(cost)(q),
    }
