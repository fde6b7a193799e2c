"""jmp: mixed precision policies and a dynamic loss scale in a training step that meets an overflow"""

import jax
import jax.numpy as jnp
import jmp

TOLERANCE = 5e-3  # of bfloat16
policy = jmp.get_policy("params=float32,compute=bfloat16,output=float32")


@jax.jit
def step(w, scale, x, y):
    def loss(w):
        w, inputs = policy.cast_to_compute((w, x))
        out = policy.cast_to_output(jnp.tanh(inputs @ w))
        return scale.scale(jnp.mean((out - y) ** 2))

    grads = scale.unscale(policy.cast_to_param(jax.grad(loss)(w)))
    finite = jmp.all_finite(grads)
    new = jmp.select_tree(finite, w - 0.1 * grads, w)
    return new, scale.adjust(finite), finite


def main():
    w = jnp.linspace(-1, 1, 12).reshape(4, 3)
    x = jnp.sin(jnp.arange(20.0)).reshape(5, 4)
    scale = jmp.DynamicLossScale(jnp.float32(2.0**15), period=3)
    finite, scales = [], []
    for i in range(6):
        w, scale, ok = step(w, scale, x if i != 3 else x * jnp.inf, jnp.ones((5, 3)))
        finite.append(ok)
        scales.append(scale.loss_scale)
    return {
        "w": w,
        "finite": jnp.stack(finite),
        "scales": jnp.stack(scales),
        "half": policy.cast_to_compute(w).astype(jnp.float32),
    }
