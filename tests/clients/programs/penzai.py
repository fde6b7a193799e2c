"""penzai: named axes, a small transformer block of penzai.nn, selectors that edit it, and its gradient"""

import jax
import jax.numpy as jnp
from penzai import pz


def main():
    rows = pz.nx.wrap(jnp.arange(12.0).reshape(3, 4)).tag("row", "col")
    scaled = pz.nx.nmap(jnp.sin)(rows) + pz.nx.wrap(jnp.arange(4.0)).tag("col")
    summed = pz.nx.nmap(jnp.sum)(scaled.untag("row"))
    model = pz.nn.Sequential([
        pz.nn.add_parameter_prefix("a", pz.nn.Affine.from_config("affine", jax.random.key(0), {"features": 4}, {"features": 8}))
        if False else pz.nn.Affine.from_config("affine", jax.random.key(0), {"features": 4}, {"features": 8}),
        pz.nn.Elementwise(jax.nn.gelu),
        pz.nn.LayerNorm.from_config("norm", jax.random.key(1), {"features": 8}),
        pz.nn.Linear.from_config("out", jax.random.key(2), {"features": 8}, {"features": 2}),
    ])  # fmt: skip
    x = pz.nx.wrap(jax.random.normal(jax.random.key(3), (5, 4))).tag("batch", "features")
    out = model(x)
    parameters = pz.select(model).at_instances_of(pz.Parameter)
    halved = parameters.apply(lambda p: pz.Parameter(value=p.value * 0.5, label=p.label, metadata=p.metadata))
    frozen, params = pz.unbind_params(model, freeze=True)

    def loss(values):
        bound = pz.bind_variables(frozen, values)
        return pz.nx.nmap(jnp.sum)((bound(x) ** 2).untag("batch", "features")).unwrap()

    value, grads = jax.jit(jax.value_and_grad(loss))(params)
    return {"summed": summed.untag("col").unwrap(), "out": out.untag("batch", "features").unwrap(),
            "halved": halved(x).untag("batch", "features").unwrap(), "loss": value,
            "gradient": jnp.concatenate([jnp.ravel(g) for g in jax.tree.leaves(grads)])}  # fmt: skip
