"""simple-pytree and sepes' kind: classes as pytrees with static fields, mapped, differentiated and compiled"""

import jax
import jax.numpy as jnp
from simple_pytree import Pytree, static_field


class Line(Pytree):
    degree: int = static_field()

    def __init__(self, w, b, degree):
        self.w = w
        self.b = b
        self.degree = degree

    def __call__(self, x):
        return self.w * x**self.degree + self.b


@jax.jit
def loss(line, x):
    return jnp.sum((line(x) - 1) ** 2)


def main():
    line = Line(jnp.array(2.0), jnp.array(0.5), 3)
    x = jnp.linspace(0, 1, 5)
    grads = jax.grad(loss)(line, x)
    stepped = jax.tree.map(lambda p, g: p - 0.1 * g, line, grads)
    return {"loss": loss(line, x), "gradient": jnp.stack([grads.w, grads.b]), "stepped": loss(stepped, x), "degree": stepped.degree,
            "many": jax.vmap(lambda w: loss(line.replace(w=w), x))(jnp.arange(3.0))}  # fmt: skip
