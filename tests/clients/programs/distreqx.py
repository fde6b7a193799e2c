"""distreqx: distributions and bijectors as equinox modules, a transformed density and its gradient, KL divergences"""

import jax
import jax.numpy as jnp
from distreqx import bijectors, distributions


def main():
    x = jnp.array([0.3, -0.8, 0.5])
    normal = distributions.Normal(jnp.zeros(3), jnp.ones(3))
    mvn = distributions.MultivariateNormalTri(jnp.zeros(3), jnp.eye(3) + 0.2 * jnp.tril(jnp.ones((3, 3)), -1))
    log_normal = distributions.Transformed(
        distributions.Normal(jnp.array(0.2), jnp.array(0.7)), bijectors.ScalarAffine(jnp.array(0.1), jnp.array(2.0))
    )
    return {
        "normal": normal.log_prob(x),
        "mvn": mvn.log_prob(x),
        "sample": mvn.sample(jax.random.key(0)),
        "transformed": log_normal.log_prob(jnp.array(0.6)),
        "gradient": jax.grad(lambda s: distributions.Normal(0.0 * s, s).log_prob(x).sum())(jnp.array(1.3)),
        "categorical": distributions.Categorical(logits=x).entropy(),
        "kl": distributions.Normal(jnp.array(0.0), jnp.array(1.0)).kl_divergence(
            distributions.Normal(jnp.array(0.4), jnp.array(2.0))
        ),
        "gamma": distributions.Gamma(jnp.array(2.0), jnp.array(1.5)).log_prob(jnp.array([0.2, 1.0])),
        "tanh": bijectors.Tanh().forward_and_log_det(x)[1],
    }
