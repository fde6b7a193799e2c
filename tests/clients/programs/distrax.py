"""distrax: mixtures, bijectors, a normalizing flow's log density and its gradient, KL divergences, sampling"""

import distrax
import jax
import jax.numpy as jnp


def flow(parameters):
    base = distrax.MultivariateNormalDiag(jnp.zeros(3), jnp.ones(3))
    shift, scale = parameters
    layers = distrax.Chain([
        distrax.Block(distrax.ScalarAffine(shift=shift, log_scale=scale), 1),
        distrax.Block(distrax.Tanh(), 1),
        distrax.Block(distrax.ScalarAffine(shift=0.0, scale=2.0), 1),
    ])  # fmt: skip
    return distrax.Transformed(base, layers)


def main():
    key = jax.random.key(0)
    mixture = distrax.MixtureSameFamily(
        distrax.Categorical(logits=jnp.array([0.1, 0.5, -1.0])),
        distrax.Normal(jnp.array([-2.0, 0.0, 3.0]), jnp.array([0.5, 1.0, 0.2])),
    )
    xs = jnp.linspace(-3, 4, 7)
    parameters = (jnp.array([0.1, -0.2, 0.3]), jnp.array([0.0, 0.1, -0.1]))
    y = jnp.array([0.2, -0.5, 0.7])
    grads = jax.grad(lambda p: flow(p).log_prob(y))(parameters)
    a, b = distrax.Normal(0.0, 1.0), distrax.Normal(0.5, 2.0)
    return {
        "mixture": mixture.log_prob(xs),
        "mixture samples": mixture.sample(seed=key, sample_shape=(5,)),
        "flow": jax.jit(lambda p: flow(p).log_prob(y))(parameters),
        "grads": jnp.concatenate(grads),
        "samples": flow(parameters).sample(seed=key, sample_shape=(2,)),
        "kl": a.kl_divergence(b),
        "entropy": distrax.Categorical(probs=jnp.array([0.2, 0.3, 0.5])).entropy(),
        "beta": distrax.Beta(2.0, 3.0).log_prob(jnp.array([0.1, 0.5])),
        "gumbel": distrax.Gumbel(0.0, 1.0).sample(seed=key, sample_shape=(3,)),
        "spline": distrax.RationalQuadraticSpline(jnp.linspace(-1, 1, 10), -2.0, 2.0).forward(xs / 3),
    }
