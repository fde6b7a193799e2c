"""blackjax: NUTS with window adaptation, HMC, MALA, a tempered SMC and Pathfinder on a curved target"""

import blackjax
import jax
import jax.numpy as jnp


def logdensity(x):
    return -0.5 * x[0] ** 2 - 0.5 * ((x[1] - x[0] ** 2) / 0.7) ** 2 - 0.5 * x[2] ** 2 / 4


def chain(kernel, state, key, n):
    def one(state, key):
        state, info = kernel(key, state)
        return state, (state.position, info.acceptance_rate)

    return jax.lax.scan(one, state, jax.random.split(key, n))[1]


@jax.jit
def short_chains(key):
    out = []
    hmc = blackjax.hmc(logdensity, 0.1, jnp.ones(3), 5)
    mala = blackjax.mala(logdensity, 0.05)
    nuts = blackjax.nuts(logdensity, 0.3, jnp.ones(3))
    for algorithm, n in ((hmc, 5), (mala, 10), (nuts, 3)):
        out.append(chain(algorithm.step, algorithm.init(jnp.array([0.5, -0.3, 1.0])), key, n))
    return out


@jax.jit
def adapted(key):
    warmup = blackjax.window_adaptation(blackjax.nuts, logdensity)
    (state, parameters), _ = warmup.run(key, jnp.array([0.5, -0.3, 1.0]), 80)
    kernel = blackjax.nuts(logdensity, **parameters).step
    return chain(kernel, state, jax.random.fold_in(key, 1), 200)


def main():
    out = short_chains(jax.random.key(0))
    positions, rates = adapted(jax.random.key(1))
    return {
        "hmc": out[0][0],
        "mala": out[1][0],
        "nuts": out[2][0],
        "rates": out[0][1],
        # A long chain is chaotic: its means are compared, within the error that 200 draws leave.
        "~mean": positions.mean(0),
        "~rate": rates.mean(),
    }
