"""matfree: stochastic traces and log-determinants by Lanczos, tridiagonalisation and its derivative, matrix functions"""

import jax
import jax.numpy as jnp
from matfree import decomp, funm, stochtrace


def main():
    a = jnp.diag(jnp.arange(1.0, 9)) + 0.1 * jnp.ones((8, 8))

    def matvec(x, a):
        return a @ x

    sampler = stochtrace.sampler_rademacher(jnp.ones(8), num=16)
    trace = stochtrace.estimator(stochtrace.integrand_trace(), sampler)(lambda x: a @ x, jax.random.PRNGKey(0))
    tridiag = decomp.tridiag_sym(4)
    integrand = funm.integrand_funm_sym_logdet(tridiag)
    logdet = stochtrace.estimator(integrand, sampler)

    def value(a):
        return logdet(lambda x: a @ x, jax.random.PRNGKey(1))

    krylov = funm.funm_lanczos_sym(jnp.exp, tridiag) if hasattr(funm, "funm_lanczos_sym") else None
    return {"trace": trace, "logdet": jax.jit(value)(a), "gradient": jax.grad(value)(a)} | (
        {} if krylov is None else {"names": len(funm.__name__)}
    )
