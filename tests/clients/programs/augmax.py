"""augmax: chains of random crops, rotations, warps, flips, colour jitter and blur applied to batches of images and masks"""

import augmax
import jax
import jax.numpy as jnp
import numpy as np

TOLERANCE = 1e-3

r = np.random.default_rng(0)
images = jnp.asarray(np.cumsum(np.cumsum(r.uniform(-1, 1, (3, 24, 24, 3)), 1), 2) / 20, jnp.float32)
images = (images - images.min()) / (images.max() - images.min())
masks = (images[..., 0] > 0.5).astype(jnp.float32)

geometry = augmax.Chain(
    augmax.RandomSizedCrop(16, 16, zoom_range=(0.8, 1.5)),
    augmax.HorizontalFlip(),
    augmax.Rotate((-20, 20)),
    augmax.Warp(strength=2, coarseness=8),
    input_types=[augmax.InputType.IMAGE, augmax.InputType.MASK],
)
colours = augmax.Chain(
    augmax.RandomGamma(p=1.0),
    augmax.ColorJitter(p=1.0),
    augmax.GaussianBlur(2, p=1.0),
    augmax.ChannelShuffle(p=1.0),
)


@jax.jit
def augment(keys, images, masks):
    def one(key, image, mask):
        k1, k2 = jax.random.split(key)
        turned, mask = geometry(k1, [image, mask])
        return turned, mask, colours(k2, image)

    return jax.vmap(one)(keys, images, masks)


def main():
    turned, mask, coloured = augment(jax.random.split(jax.random.PRNGKey(3), 3), images, masks)
    return {
        "turned": turned.mean(axis=(1, 2)),
        "image": turned[0, 4:12, 4:12],
        "mask": mask.mean(axis=(1, 2)),
        "coloured": coloured,
    }
