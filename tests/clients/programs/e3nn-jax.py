"""e3nn-jax: spherical harmonics, tensor products, rotations of irreps, equivariance and gradients of a gated layer"""

import e3nn_jax as e3nn
import jax
import jax.numpy as jnp


def main():
    x = jax.random.normal(jax.random.key(0), (6, 3))
    sh = e3nn.spherical_harmonics("0e + 1o + 2e", x, normalize=True)
    a = e3nn.normal("2x0e + 1o + 2e", jax.random.key(1), (6,))
    product = e3nn.tensor_product(a, sh)
    angles = (0.3, 0.5, -0.2)
    rotated = sh.transform_by_angles(*angles)
    again = e3nn.spherical_harmonics("0e + 1o + 2e", x @ e3nn.angles_to_matrix(*angles).T, normalize=True)
    gated = e3nn.gate(e3nn.IrrepsArray("3x0e + 1o + 2e", jnp.concatenate([a.array[:, :3], sh.array[:, 1:9]], 1)))
    grads = jax.jit(
        jax.grad(lambda x: jnp.sum(e3nn.tensor_product(a, e3nn.spherical_harmonics("1o + 2e", x, False)).array ** 3))
    )(x)
    return {
        "harmonics": sh.array,
        "product": product.array,
        "equivariance": jnp.max(jnp.abs(rotated.array - again.array)) < 1e-5,
        "gate": gated.array,
        "gradient": grads,
        "clebsch gordan": e3nn.clebsch_gordan(1, 1, 2),
        "norm": e3nn.norm(a).array,
        "bessel": e3nn.bessel(jnp.linspace(0.1, 2, 5), 4, 2.0),
        "wigner": e3nn.Irrep("2e").D_from_angles(*angles),
    }
