"""evosax: CMA-ES, OpenES and differential evolution on Rosenbrock's function, populations compared"""

import jax
import jax.numpy as jnp
from evosax.algorithms import CMA_ES, Open_ES
from evosax.algorithms.population_based import DifferentialEvolution


def rosenbrock(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def run(algorithm, init, steps):
    key = jax.random.key(0)
    params = algorithm.default_params
    state = init(algorithm, key, params)

    @jax.jit
    def step(state, key):
        population, state = algorithm.ask(key, state, params)
        fitness = jax.vmap(rosenbrock)(population)
        state, metrics = algorithm.tell(key, population, fitness, state, params)
        return state, fitness

    out = []
    for k in jax.random.split(key, steps):
        state, fitness = step(state, k)
        out.append(fitness.min())
    return jnp.stack(out)


def main():
    start = jnp.zeros(3)
    population = jax.random.normal(jax.random.key(1), (8, 3))
    return {
        "cma": run(CMA_ES(population_size=8, solution=start), lambda a, k, p: a.init(k, start, p), 4),
        "open": run(Open_ES(population_size=8, solution=start), lambda a, k, p: a.init(k, start, p), 4),
        "de": run(DifferentialEvolution(population_size=8, solution=start),
                  lambda a, k, p: a.init(k, population, jax.vmap(rosenbrock)(population), p), 4),
    }  # fmt: skip
