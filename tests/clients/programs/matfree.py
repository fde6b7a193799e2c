"""matfree: Lanczos and Arnoldi decompositions, stochastic traces and log-determinants, LSMR, and gradients through them"""

import jax
import jax.numpy as jnp
import numpy as np
from matfree import decomp, funm, lstsq, stochtrace

r = np.random.default_rng(0)
basis = np.linalg.qr(r.normal(size=(12, 12)))[0]
A = jnp.asarray(basis @ np.diag(np.linspace(1, 4, 12)) @ basis.T, jnp.float32)
T = jnp.asarray(r.normal(size=(20, 6)), jnp.float32)
y = jnp.asarray(r.normal(size=20), jnp.float32)


def matvec(v, scale):
    return scale * (A @ v)


def logdet(scale, key):
    integrand = funm.monte_carlo_funm_sym_logdet(decomp.tridiag_sym(6))
    sampler = stochtrace.sampler_signs(jnp.ones(12), num=16)
    return stochtrace.estimator_monte_carlo(integrand, sampler)(matvec, key, scale)


@jax.jit
def everything(scale, key):
    value, slope = jax.value_and_grad(logdet)(scale, key)
    traces = stochtrace.estimator_monte_carlo(
        stochtrace.monte_carlo_trace_and_diagonal(), stochtrace.sampler_normal(jnp.ones(12), num=64)
    )
    lanczos = decomp.tridiag_sym(5)(matvec, jnp.arange(1.0, 13.0), scale)
    hessenberg = decomp.hessenberg(4, reortho="full")(matvec, jnp.arange(1.0, 13.0), scale)
    exponential = funm.funm_lanczos_sym(funm.dense_funm_sym_eigh(jnp.exp), decomp.tridiag_sym(8))(
        matvec, jnp.ones(12), scale
    )
    solution, stats = lstsq.lsmr(maxiter=40)(lambda v: v @ T, y)
    return {
        "log determinant": value,
        "its slope": slope,
        "trace": traces(matvec, key, scale)["trace"],
        "Lanczos": lanczos.J_small,
        "Hessenberg": hessenberg.J_small,
        "exponential": exponential,
        "least squares": solution,
    }


def main():
    return everything(jnp.float32(1.5), jax.random.PRNGKey(1))
