"""einops: rearrange, reduce, repeat and einsum of arrays, of traced values and under grad"""

import jax
import jax.numpy as jnp
from einops import einsum, rearrange, reduce, repeat


@jax.jit
def patches(images):
    x = rearrange(images, "b (h p) (w q) c -> b (h w) (p q c)", p=2, q=2)
    scores = einsum(x, x, "b i d, b j d -> b i j")
    return reduce(jax.nn.softmax(scores), "b i j -> b j", "mean"), repeat(x[:, 0], "b d -> b r d", r=2)


def main():
    images = jnp.sin(jnp.arange(2 * 4 * 4 * 3, dtype=jnp.float32)).reshape(2, 4, 4, 3)
    weights, repeated = patches(images)
    grads = jax.grad(lambda x: reduce(x**2, "b h w c -> ", "sum") + reduce(x, "b h w c -> c", "max").sum())(images)
    return {
        "weights": weights,
        "repeated": repeated,
        "gradient": grads,
        "back": rearrange(images, "b h w c -> c (b h w)"),
    }
