"""zodiax: models edited by paths, filtered gradients and optimisers by parameter, Hessians and Fisher information of a fit"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import zodiax as zdx

r = np.random.default_rng(0)
x = jnp.linspace(-3, 3, 40)
noise = jnp.asarray(0.05 * r.normal(size=40), jnp.float32)


class Peak(zdx.Base):
    centre: jax.Array
    width: jax.Array

    def __init__(self, centre, width):
        self.centre, self.width = jnp.asarray(centre, jnp.float32), jnp.asarray(width, jnp.float32)

    def model(self):
        return jnp.exp(-0.5 * ((x - self.centre) / self.width) ** 2)


class Spectrum(zdx.Base):
    peak: Peak
    flux: jax.Array

    def __init__(self, peak, flux):
        self.peak, self.flux = peak, jnp.asarray(flux, jnp.float32)

    def model(self):
        return self.flux * self.peak.model()


truth = Spectrum(Peak(0.4, 0.8), 2.0)
data = truth.model() + noise


@eqx.filter_jit
def loss(model):
    return jnp.sum((model.model() - data) ** 2)


def main():
    model = truth.set(["peak.centre", "peak.width"], [0.0, 1.1]).multiply("flux", 0.7)
    optimiser = optax.adam(0.05)
    params = {k: model.get(k) for k in ("peak.centre", "peak.width", "flux")}
    state = optimiser.init(params)
    losses = []

    def of(params):
        return loss(model.set(list(params), list(params.values())))

    for _ in range(25):
        value, grads = jax.value_and_grad(of)(params)
        updates, state = optimiser.update(grads, state)
        params = optax.apply_updates(params, updates)
        losses.append(value)
    hessian, _ = zdx.hessian(of, params)
    return {
        "losses": jnp.stack(losses),
        "fitted": jnp.stack(list(params.values())),
        "Hessian": hessian,
        "moved": truth.add("peak.centre", 0.5).get("peak.centre"),
    }
