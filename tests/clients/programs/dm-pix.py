"""dm-pix: brightness, contrast, blurs, rotations, colour spaces and PSNR of images, and a gradient through them"""

import dm_pix as pix
import jax
import jax.numpy as jnp


def main():
    image = jax.random.uniform(jax.random.key(0), (9, 9, 3))
    other = jnp.roll(image, 1, axis=0)

    @jax.jit
    def augment(x):
        x = pix.adjust_brightness(pix.adjust_contrast(x, 1.3), 0.1)
        return pix.gaussian_blur(pix.adjust_saturation(x, 0.7), 1.0, 3)

    return {
        "augmented": augment(image),
        "gradient": jax.grad(lambda x: (augment(x) ** 2).sum())(image),
        "rotated": pix.rotate(image, 0.3),
        "hsv": pix.rgb_to_hsv(image),
        "gray": pix.rgb_to_grayscale(image),
        "psnr": pix.psnr(image, other),
        "ssim": pix.ssim(image, other, filter_size=5),
        "crop": pix.random_crop(jax.random.key(1), image, (4, 4, 3)),
        "sobel": pix.sobel(image)[..., 0] if hasattr(pix, "sobel") else 0,
    }
