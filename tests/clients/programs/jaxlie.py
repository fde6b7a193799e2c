"""jaxlie: SO3 and SE3 exponentials, logarithms, adjoints and an optimisation on the manifold"""

import jax
import jax.numpy as jnp
import jaxlie


def main():
    omega = jnp.array([0.1, -0.4, 0.3])
    rotation = jaxlie.SO3.exp(omega)
    pose = jaxlie.SE3.from_rotation_and_translation(rotation, jnp.array([1.0, 2.0, -0.5]))
    points = jax.random.normal(jax.random.key(0), (5, 3))
    target = jax.vmap(pose.apply)(points)

    def loss(pose):
        return jnp.mean((jax.vmap(pose.apply)(points) - target) ** 2)

    current = jaxlie.SE3.identity()
    losses = []
    step = jax.jit(lambda p: (loss(p), jaxlie.manifold.rplus(p, -0.2 * jaxlie.manifold.grad(loss)(p))))
    for _ in range(15):
        value, current = step(current)
        losses.append(value)
    return {"matrix": pose.as_matrix(), "log": pose.log(), "adjoint": pose.adjoint(), "inverse": pose.inverse().as_matrix(),
            "losses": jnp.stack(losses), "rpy": jnp.stack(rotation.as_rpy_radians()) if hasattr(rotation, "as_rpy_radians") else omega}  # fmt: skip
