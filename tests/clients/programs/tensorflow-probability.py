"""TensorFlow Probability's JAX substrate: a joint distribution, HMC, bijectors, special functions and an optimizer"""

import jax
import jax.numpy as jnp
from tensorflow_probability.substrates import jax as tfp

tfd, tfb = tfp.distributions, tfp.bijectors


def main():
    joint = tfd.JointDistributionNamed({"m": tfd.Normal(0.0, 1.0), "x": lambda m: tfd.Sample(tfd.Normal(m, 0.5), 4)})
    x = jnp.array([0.3, 0.8, 0.1, 0.5])

    def target(m):
        return joint.log_prob(m=m, x=x)

    kernel = tfp.mcmc.HamiltonianMonteCarlo(target, step_size=0.2, num_leapfrog_steps=3)
    samples = tfp.mcmc.sample_chain(
        6, current_state=jnp.float32(0.0), kernel=kernel, trace_fn=None, seed=jax.random.PRNGKey(0)
    )
    bijector = tfb.Chain([tfb.Shift(0.5), tfb.Scale(2.0), tfb.Softplus()])
    return {
        "log density": jax.jit(target)(0.4),
        "gradient": jax.grad(target)(0.4),
        "chain": samples,
        "forward": bijector.forward(x),
        "jacobian": bijector.forward_log_det_jacobian(x, event_ndims=0),
        "wishart": tfd.WishartTriL(5.0, jnp.eye(2)).log_prob(jnp.array([[2.0, 0.3], [0.3, 1.0]])),
        "gp": tfd.GaussianProcess(tfp.math.psd_kernels.ExponentiatedQuadratic(), x[:, None]).log_prob(x),
        "special": tfp.math.log_gamma_difference(x, x + 1) + tfp.math.lbeta(x, 2.0),
        "bfgs": tfp.optimizer.bfgs_minimize(
            lambda v: tfp.math.value_and_gradient(lambda z: jnp.sum((z - x) ** 2), v), jnp.zeros(4)
        ).position,
        "quantile": tfd.Gamma(2.0, 1.0).quantile(jnp.array([0.1, 0.5])),
        "vonmises": tfd.VonMises(0.0, 2.0).sample(3, seed=jax.random.PRNGKey(1)),
    }
