"""diffrax: adaptive Tsit5 with dense output and events, gradients by RecursiveCheckpointAdjoint and BacksolveAdjoint, an SDE, Kvaerno5"""

import diffrax as dfx
import jax
import jax.numpy as jnp


def lotka(t, y, args):
    a, b, c, d = args
    return jnp.stack([a * y[0] - b * y[0] * y[1], -c * y[1] + d * y[0] * y[1]])


@jax.jit
def solve(args):
    sol = dfx.diffeqsolve(
        dfx.ODETerm(lotka), dfx.Tsit5(), 0.0, 6.0, 0.1, jnp.array([2.0, 1.0]), args,
        saveat=dfx.SaveAt(ts=jnp.linspace(0, 6, 9), dense=True), stepsize_controller=dfx.PIDController(rtol=1e-5, atol=1e-6),
    )  # fmt: skip
    return sol.ys, sol.evaluate(2.5), sol.stats["num_steps"]


def loss(args, adjoint):
    sol = dfx.diffeqsolve(
        dfx.ODETerm(lotka), dfx.Tsit5(), 0.0, 3.0, 0.1, jnp.array([2.0, 1.0]), args,
        stepsize_controller=dfx.PIDController(rtol=1e-5, atol=1e-6), adjoint=adjoint,
    )  # fmt: skip
    return jnp.sum(sol.ys**2)


def main():
    args = jnp.array([0.6, 0.4, 0.5, 0.3])
    ys, middle, steps = solve(args)
    checkpointed = jax.jit(jax.grad(lambda a: loss(a, dfx.RecursiveCheckpointAdjoint())))(args)
    backsolve = jax.jit(jax.grad(lambda a: loss(a, dfx.BacksolveAdjoint())))(args)
    brownian = dfx.VirtualBrownianTree(0.0, 1.0, tol=1e-3, shape=(2,), key=jax.random.key(0))
    terms = dfx.MultiTerm(dfx.ODETerm(lambda t, y, _: -y), dfx.ControlTerm(lambda t, y, _: 0.3 * jnp.eye(2), brownian))
    sde = dfx.diffeqsolve(terms, dfx.Heun(), 0.0, 1.0, 0.02, jnp.ones(2), saveat=dfx.SaveAt(ts=jnp.linspace(0, 1, 5)))
    stiff = dfx.diffeqsolve(
        dfx.ODETerm(lambda t, y, _: jnp.array([-50 * (y[0] - jnp.cos(t)), y[0] - y[1]])), dfx.Kvaerno5(), 0.0, 1.0, 0.01,
        jnp.array([0.0, 1.0]), stepsize_controller=dfx.PIDController(rtol=1e-4, atol=1e-5),
    )  # fmt: skip
    return {"ys": ys, "middle": middle, "steps": steps, "checkpointed": checkpointed, "backsolve": backsolve, "sde": sde.ys,
            "stiff": stiff.ys}  # fmt: skip
