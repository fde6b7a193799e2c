"""jaxoplanet: Kepler's equation, light curves of transits with limb darkening on a Keplerian orbit, and their gradients"""

import jax
import jax.numpy as jnp
from jaxoplanet.core.kepler import kepler
from jaxoplanet.light_curves import limb_dark_light_curve
from jaxoplanet.orbits import TransitOrbit
from jaxoplanet.orbits.keplerian import Central, System

TOLERANCE = 1e-3

t = jnp.linspace(-0.2, 0.2, 41)


def flux(params):
    orbit = TransitOrbit(
        period=params["period"], duration=params["duration"], time_transit=0.0, impact_param=params["impact"],
        radius_ratio=params["ratio"],
    )  # fmt: skip
    return limb_dark_light_curve(orbit, params["u"])(t)


@jax.jit
def everything(params):
    system = System(Central(mass=1.0, radius=1.0)).add_body(
        period=4.0, eccentricity=0.2, omega_peri=0.5, impact_param=0.3, radius=0.1
    )
    mean_anomaly = jnp.linspace(0, 6, 13)
    sin_f, cos_f = kepler(mean_anomaly, 0.4 * jnp.ones(13))
    return {
        "flux": flux(params) * 100,
        "slopes": jax.tree.leaves(jax.grad(lambda p: jnp.sum(flux(p) ** 2))(params))[0],
        "sine": sin_f,
        "cosine": cos_f,
        "position": jnp.stack(system.relative_position(t)),
    }


def main():
    return everything(
        {"period": jnp.float32(3.0), "duration": jnp.float32(0.2), "impact": jnp.float32(0.3), "ratio": jnp.float32(0.1),
         "u": jnp.array([0.3, 0.2])}
    )  # fmt: skip
