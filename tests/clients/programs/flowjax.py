"""flowjax: a masked autoregressive flow fitted to data by its library's trainer, log densities, samples and bijections"""

import flowjax.bijections as bij
import jax.numpy as jnp
import jax.random as jr
from flowjax.distributions import Normal, StandardNormal, Transformed
from flowjax.flows import masked_autoregressive_flow
from flowjax.train import fit_to_data


def main():
    key = jr.key(0)
    x = jr.normal(jr.key(1), (120, 2)) * jnp.array([1.0, 0.5]) + jnp.array([0.3, -1.0])
    flow = masked_autoregressive_flow(key, base_dist=StandardNormal((2,)), flow_layers=2, nn_width=8, nn_depth=1)
    before = flow.log_prob(x[:5])
    fitted, losses = fit_to_data(jr.key(2), flow, x, max_epochs=3, batch_size=40, show_progress=False)
    affine = Transformed(
        Normal(jnp.zeros(2)), bij.Chain([bij.Affine(jnp.array([1.0, 2.0]), jnp.array([0.5, 2.0])), bij.Exp((2,))])
    )
    return {"before": before, "losses": jnp.asarray(losses["train"]), "after": fitted.log_prob(x[:5]),
            "samples": flow.sample(jr.key(3), (4,)), "affine": affine.log_prob(jnp.array([0.7, 1.5])),
            "spline": bij.RationalQuadraticSpline(knots=5, interval=3).transform(jnp.array(0.4))}  # fmt: skip
