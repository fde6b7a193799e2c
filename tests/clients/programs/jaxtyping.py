"""jaxtyping and beartype: annotated functions checked as they are called and traced; wrong shapes are refused"""

import jax
import jax.numpy as jnp
from beartype import beartype
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree, Scalar, TypeCheckError, jaxtyped


@jax.jit
@jaxtyped(typechecker=beartype)
def attention(q: Float[Array, "n d"], k: Float[Array, "m d"], v: Float[Array, "m e"]) -> Float[Array, "n e"]:
    return jax.nn.softmax(q @ k.T) @ v


@jaxtyped(typechecker=beartype)
def total(tree: PyTree[Float[Array, "..."]]) -> Scalar:
    return sum(jnp.sum(x) for x in jax.tree.leaves(tree))


@jaxtyped(typechecker=beartype)
def draw(key: PRNGKeyArray, n: int) -> Int[Array, " n"]:
    return jax.random.randint(key, (n,), 0, 10)


def main():
    q, k, v = (jax.random.normal(jax.random.key(i), s) for i, s in enumerate([(4, 3), (5, 3), (5, 2)]))
    refused = []
    for wrong in (lambda: attention(q, k[:, :2], v), lambda: attention(q, k, v[:4]), lambda: total({"a": jnp.arange(3)}),
                  lambda: draw(jnp.zeros(3), 2)):  # fmt: skip
        try:
            wrong()
            refused.append(0)
        except (TypeCheckError, TypeError):
            refused.append(1)
    return {
        "attention": attention(q, k, v),
        "total": total({"a": q, "b": [k]}),
        "drawn": draw(jax.random.key(3), 4),
        "refused": refused,
    }
