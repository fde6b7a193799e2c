"""exponax: spectral solvers of Burgers, Korteweg-de Vries, Kuramoto-Sivashinsky and two-dimensional vorticity, and a gradient"""

import exponax as ex
import jax
import jax.numpy as jnp

TOLERANCE = 1e-3


@jax.jit
def everything(key):
    start = ex.ic.RandomTruncatedFourierSeries(1, cutoff=4)(48, key=key)
    burgers = ex.stepper.Burgers(1, 1.0, 48, 0.01, diffusivity=0.02)
    kdv = ex.stepper.KortewegDeVries(1, 20.0, 48, 0.01)
    ks = ex.stepper.KuramotoSivashinskyConservative(1, 30.0, 48, 0.1)
    flow = ex.stepper.NavierStokesVorticity(2, 1.0, 24, 0.01)
    vorticity = ex.ic.RandomTruncatedFourierSeries(2, cutoff=3)(24, key=key)

    def energy(scale):
        return jnp.mean(ex.repeat(burgers, 10)(scale * start) ** 2)

    return {
        "Burgers": ex.rollout(burgers, 20)(start)[::5],
        "Korteweg-de Vries": ex.repeat(kdv, 10)(start),
        "Kuramoto-Sivashinsky": ex.repeat(ks, 20)(start),
        "vorticity": ex.repeat(flow, 10)(vorticity),
        "gradient": jax.grad(energy)(jnp.float32(1.0)),
        "derivative": ex.derivative(start, 1.0),
        "spectrum": ex.get_spectrum(start),
        "error": ex.metrics.nRMSE(burgers(start), start),
    }


def main():
    return everything(jax.random.PRNGKey(0))
