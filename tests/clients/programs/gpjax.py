"""gpjax: a conjugate Gaussian process regression, its marginal likelihood optimised, and its predictions"""

import gpjax as gpx
import jax.numpy as jnp
import jax.random as jr
import optax


def main():
    x = jnp.linspace(-2, 2, 30).reshape(-1, 1)
    y = jnp.sin(3 * x) + 0.1 * jr.normal(jr.key(0), x.shape)
    data = gpx.Dataset(X=x, y=y)
    prior = gpx.gps.Prior(mean_function=gpx.mean_functions.Zero(), kernel=gpx.kernels.RBF())
    posterior = prior * gpx.likelihoods.Gaussian()
    before = -gpx.objectives.conjugate_mll(posterior, data)
    fitted, history = gpx.fit(
        model=posterior, objective=lambda p, d: -gpx.objectives.conjugate_mll(p, d), train_data=data,
        optim=optax.adam(0.05), num_iters=30, key=jr.key(1), verbose=False,
    )  # fmt: skip
    new = jnp.linspace(-2.5, 2.5, 8).reshape(-1, 1)
    latent = fitted.predict(new, train_data=data)
    predictive = fitted.likelihood(latent)
    gram = (
        gpx.kernels.Matern52().gram(x[:4]).to_dense() if hasattr(gpx.kernels.Matern52().gram(x[:4]), "to_dense") else 0
    )
    return {
        "before": before,
        "history": history,
        "mean": predictive.mean,
        "variance": jnp.diag(predictive.covariance_matrix),
        "gram": gram,
    }
