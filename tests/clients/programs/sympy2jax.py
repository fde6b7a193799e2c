"""sympy2jax: an expression of SymPy as a trainable module, its value and gradients, and back to SymPy"""

import equinox as eqx
import jax.numpy as jnp
import sympy
import sympy2jax


def main():
    x, y = sympy.symbols("x y")
    module = sympy2jax.SymbolicModule([1.5 * sympy.sin(x) * y**2 + 0.3, sympy.exp(-x) + sympy.Abs(y)])
    values = module(x=jnp.linspace(0, 1, 4), y=jnp.array(0.7))

    @eqx.filter_jit
    @eqx.filter_grad
    def gradient(module):
        return sum(jnp.sum(v**2) for v in module(x=jnp.array(0.4), y=jnp.array(-1.2)))

    grads = [jnp.ravel(g) for g in eqx.filter(jnp.array([0.0]), eqx.is_array)] if False else []
    import jax

    grads = [jnp.ravel(g) for g in jax.tree.leaves(eqx.filter(gradient(module), eqx.is_inexact_array))]
    return {"first": values[0], "second": values[1], "gradients": jnp.concatenate(grads), "back": len(module.sympy())}
