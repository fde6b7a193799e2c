"""dynamax: a Gaussian hidden Markov model fitted by EM, a linear Gaussian state space model filtered, smoothed and fitted"""

import jax
import jax.numpy as jnp
import numpy as np
from dynamax.hidden_markov_model import GaussianHMM
from dynamax.linear_gaussian_ssm import LinearGaussianSSM
from dynamax.nonlinear_gaussian_ssm import ParamsNLGSSM, extended_kalman_filter, unscented_kalman_filter
from dynamax.nonlinear_gaussian_ssm.inference_ukf import UKFHyperParams

TOLERANCE = 1e-3

r = np.random.default_rng(0)
states = np.repeat(r.integers(0, 3, 12), 6)
seen = jnp.asarray(np.array([[-2.0, 0.0], [0.0, 2.0], [2.0, -1.0]])[states] + 0.4 * r.normal(size=(72, 2)), jnp.float32)


def main():
    hmm = GaussianHMM(3, 2)
    params, props = hmm.initialize(jax.random.PRNGKey(0), method="prior")
    params = params._replace(
        emissions=params.emissions._replace(means=jnp.array([[-1.0, 0.0], [0.0, 1.0], [1.0, -1.0]]))
    )
    fitted, log_probs = hmm.fit_em(params, props, seen, num_iters=8, verbose=False)
    posterior = hmm.smoother(fitted, seen)
    lgssm = LinearGaussianSSM(2, 2)
    linear, linear_props = lgssm.initialize(jax.random.PRNGKey(1))
    smoothed = lgssm.smoother(linear, seen)
    linear_fitted, marginals = lgssm.fit_em(linear, linear_props, seen, num_iters=4, verbose=False)
    nonlinear = ParamsNLGSSM(
        initial_mean=jnp.zeros(2), initial_covariance=jnp.eye(2), dynamics_function=lambda z: jnp.sin(z) + 0.5 * z,
        dynamics_covariance=0.1 * jnp.eye(2), emission_function=lambda z: z + 0.1 * z**2, emission_covariance=0.5 * jnp.eye(2),
    )  # fmt: skip
    return {
        "log probabilities": log_probs,
        "means": fitted.emissions.means,
        "states": posterior.smoothed_probs,
        "path": hmm.most_likely_states(fitted, seen),
        "filtered": smoothed.filtered_means,
        "smoothed": smoothed.smoothed_means,
        "marginals": marginals,
        "dynamics": linear_fitted.dynamics.weights,
        "extended": extended_kalman_filter(nonlinear, seen).filtered_means,
        "unscented": unscented_kalman_filter(nonlinear, seen, UKFHyperParams()).filtered_means,
        "slope": jax.grad(
            lambda w: lgssm.marginal_log_prob(linear._replace(dynamics=linear.dynamics._replace(weights=w)), seen)
        )(linear.dynamics.weights),
    }
