"""einx: rearrangements, reductions, dot products, softmax, indexing and vmap in its notation, with a gradient"""

import einx
import jax
import jax.numpy as jnp


def main():
    x = jax.random.normal(jax.random.key(0), (2, 4, 6))
    w = jax.random.normal(jax.random.key(1), (6, 3))
    return {
        "rearranged": einx.id("a (b c) d -> c (a d) b", x, c=2)
        if hasattr(einx, "id")
        else einx.rearrange("a (b c) d -> c (a d) b", x, c=2),
        "mean": einx.mean("a [b] d", x),
        "dot": einx.dot("a b [c], [c] d -> a b d", x, w),
        "softmax": einx.softmax("a b [d]", x),
        "gradient": jax.grad(lambda w: (einx.dot("a b [c], [c] d -> a b d", x, w) ** 2).sum())(w),
        "gathered": einx.get_at("a [b] d, i -> a i d", x, jnp.array([2, 0])),
    }
