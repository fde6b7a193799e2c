"""distreqx: distributions and bijectors as equinox modules: mixtures, transformed and independent ones, KL, samples, gradients"""

import equinox as eqx
import jax
import jax.numpy as jnp
from distreqx import bijectors as b
from distreqx import distributions as d

x = jnp.linspace(-2, 2, 9)


@eqx.filter_jit
def everything(loc, key):
    normal = d.Normal(loc, jnp.array([0.5, 1.0, 2.0]))
    mixture = d.MixtureSameFamily(d.Categorical(logits=jnp.array([0.1, 0.5, -0.3])), normal)
    joint = d.Independent(normal)
    flow = b.Chain([b.Tanh(), b.ScalarAffine(jnp.array(0.2), jnp.array(0.5))])
    squeezed = d.Transformed(d.Normal(jnp.array(0.0), jnp.array(1.0)), flow)
    linear = b.TriangularLinear(jnp.array([[1.0, 0.0], [0.5, 2.0]]))
    full = d.MultivariateNormalTri(jnp.array([0.3, -0.2]), jnp.array([[1.0, 0.0], [0.4, 0.7]]))
    return {
        "mixture": jax.vmap(mixture.log_prob)(x),
        "joint": joint.log_prob(jnp.array([0.1, 0.2, 0.3])),
        "squeezed": jax.vmap(squeezed.log_prob)(x / 3),
        "inverse": linear.inverse_and_log_det(jnp.array([1.0, 2.0]))[0],
        "full": full.log_prob(jnp.array([0.1, 0.1])),
        "sample": full.sample(key),
        "entropy": normal.entropy(),
        "divergence": normal.kl_divergence(d.Normal(jnp.zeros(3), jnp.ones(3))),
        "mean": mixture.mean(),
        "gamma": d.Gamma(jnp.array(2.0), jnp.array(1.5)).log_prob(jnp.array(0.7)),
        "beta": d.Beta(jnp.array(2.0), jnp.array(1.5)).log_prob(jnp.array(0.7)),
    }


def main():
    loc = jnp.array([-1.0, 0.0, 1.0])
    given = everything(loc, jax.random.PRNGKey(0))

    def fit(loc):
        return -jnp.mean(everything(loc, jax.random.PRNGKey(0))["mixture"])

    return given | {"gradient": jax.grad(fit)(loc)}
