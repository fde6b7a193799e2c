"""jaxopt: LBFGS, Gauss-Newton, projected gradients, proximal lasso, implicit derivatives of a ridge regression, bisection"""

import jax
import jax.numpy as jnp
import jaxopt
import numpy as np

r = np.random.default_rng(0)
X = jnp.asarray(r.normal(size=(30, 5)), jnp.float32)
y = jnp.asarray(np.asarray(X) @ np.array([1.0, -2.0, 0.5, 0.0, 0.0]), jnp.float32)


def ridge(w, penalty):
    return jnp.mean((X @ w - y) ** 2) + penalty * jnp.sum(w**2)


def main():
    w0 = jnp.zeros(5)
    solver = jaxopt.LBFGS(ridge, maxiter=40, tol=1e-5)
    lbfgs = solver.run(w0, 0.1).params
    implicit = jax.jacrev(lambda p: jaxopt.GradientDescent(ridge, maxiter=200, tol=1e-6).run(w0, p).params)(0.1)
    projected = (
        jaxopt.ProjectedGradient(ridge, jaxopt.projection.projection_simplex, maxiter=100)
        .run(w0 + 0.2, hyperparams_proj=1.0, penalty=0.1)
        .params
    )
    lasso = jaxopt.ProximalGradient(lambda w, d: jnp.mean((d[0] @ w - d[1]) ** 2), jaxopt.prox.prox_lasso, maxiter=200)
    newton = jaxopt.GaussNewton(lambda p: p[0] * jnp.exp(-p[1] * jnp.arange(5.0)) - 2 * jnp.exp(-0.5 * jnp.arange(5.0)))
    return {
        "lbfgs": lbfgs,
        "implicit": implicit,
        "projected": projected,
        "lasso": lasso.run(w0, 0.2, (X, y)).params,
        "gauss newton": newton.run(jnp.array([1.0, 0.3])).params,
        "bisection": jaxopt.Bisection(lambda x: x**3 - 2, 0.0, 2.0).run().params,
        "anderson": jaxopt.AndersonAcceleration(lambda x: jnp.cos(x), maxiter=30).run(jnp.array([0.5, 1.0])).params,
        "sparsemax": jaxopt.projection.projection_simplex(jnp.array([0.3, 2.0, 1.5])),
        "logistic": jaxopt.loss.multiclass_logistic_loss(1, jnp.array([0.1, 0.5, -1.0])),
    }
