"""numpyro: NUTS on a hierarchical regression, SVI with an AutoNormal guide, log densities of a dozen distributions"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

r = np.random.default_rng(0)
x = jnp.asarray(r.normal(size=(40, 2)), jnp.float32)
group = jnp.asarray(r.integers(0, 4, 40))
y = jnp.asarray(np.asarray(x) @ np.array([1.0, -0.5]) + np.asarray(group) * 0.3 + r.normal(size=40) * 0.2, jnp.float32)


def model(x, group, y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    with numpyro.plate("groups", 4):
        a = numpyro.sample("a", dist.Normal(mu, tau))
    b = numpyro.sample("b", dist.Normal(0, 1).expand([2]).to_event(1))
    sigma = numpyro.sample("sigma", dist.Exponential(1.0))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(a[group] + x @ b, sigma), obs=y)


def main():
    mcmc = MCMC(NUTS(model), num_warmup=60, num_samples=60, progress_bar=False)
    mcmc.run(jax.random.PRNGKey(0), x, group, y)
    samples = mcmc.get_samples()
    guide = AutoNormal(model)
    svi = SVI(model, guide, numpyro.optim.Adam(0.02), Trace_ELBO())
    result = svi.run(jax.random.PRNGKey(1), 100, x, group, y, progress_bar=False)
    predictive = Predictive(model, params={}, num_samples=3)(jax.random.PRNGKey(2), x[:3], group[:3])
    points = jnp.array([0.3, 0.7])
    return {
        # A chain is chaotic: its means are compared, within the error that 60 draws leave.
        "~b": samples["b"].mean(0),
        "~a": samples["a"].mean(0),
        "elbo": result.losses[::10],
        "prior": predictive["mu"],
        "log densities": jnp.stack(
            [
                d.log_prob(points).sum()
                for d in (
                    dist.Beta(2.0, 3.0),
                    dist.Gamma(2.0, 1.5),
                    dist.StudentT(4.0),
                    dist.Cauchy(),
                    dist.LogNormal(),
                    dist.Laplace(),
                    dist.Weibull(1.0, 2.0),
                    dist.Pareto(0.1, 2.0),
                    dist.Gumbel(),
                    dist.Logistic(),
                    dist.TruncatedNormal(0.0, 1.0, low=0.0),
                    dist.InverseGamma(3.0, 1.0),
                    dist.Kumaraswamy(2.0, 2.0),
                )
            ]
        ),  # fmt: skip
        "mvn": dist.MultivariateNormal(jnp.zeros(2), jnp.array([[1.0, 0.3], [0.3, 2.0]])).log_prob(points),
        "lkj": dist.LKJCholesky(3, 1.5).sample(jax.random.PRNGKey(3)),
        "multinomial": dist.Multinomial(10, jnp.array([0.2, 0.3, 0.5])).sample(jax.random.PRNGKey(4)),
    }
