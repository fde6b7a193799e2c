"""coordax: fields with coordinates, vectorised functions over named axes, arithmetic by names, and gradients of fields"""

import coordax as cx
import jax
import jax.numpy as jnp
import numpy as np

r = np.random.default_rng(0)
space = cx.LabeledAxis("x", np.linspace(0, 1, 16))
level = cx.SizedAxis("level", 4)
u = cx.field(jnp.asarray(r.normal(size=(4, 16)), jnp.float32), level, space)
w = cx.field(jnp.asarray(r.uniform(size=4), jnp.float32), level)


def smooth(v):
    return (jnp.roll(v, 1) + 2 * v + jnp.roll(v, -1)) / 4


@jax.jit
def step(u, w):
    smoothed = cx.cmap(smooth)(u.untag(space)).tag(space)
    weighted = smoothed * w
    total = cx.cmap(jnp.sum)(weighted.untag(level))
    return weighted.order_as(level, space), total


def loss(u, w):
    weighted, total = step(u, w)
    return jnp.sum(jnp.sin(weighted.data)) + jnp.sum(total.data**2)


def main():
    weighted, total = step(u, w)
    slope_u, slope_w = jax.grad(loss, argnums=(0, 1))(u, w)
    return {
        "weighted": weighted.data,
        "total": total.data,
        "gradient": slope_u.data,
        "of the weights": slope_w.data,
        "mean": cx.cmap(jnp.mean)(u.untag(level, space)).data,
        "labels": total.axes["x"].ticks,
    }
