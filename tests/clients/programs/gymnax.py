"""gymnax: cart poles, a pendulum and Catch stepped in batches within a scan, with a policy trained through the rollout's rewards"""

import gymnax
import jax
import jax.numpy as jnp

TOLERANCE = 1e-3


def rollout(name, steps, policy, weights, key):
    env, params = gymnax.make(name)

    def one(key):
        obs, state = env.reset(key, params)

        def step(carry, k):
            obs, state = carry
            out = env.step(k, state, policy(weights, obs), params)
            return (out[0], out[1]), (out[0], out[2])

        return jax.lax.scan(step, (obs, state), jax.random.split(key, steps))[1]

    return jax.vmap(one)(jax.random.split(key, 4))


def discrete(weights, obs):
    return (jnp.sum(weights * jnp.ravel(obs)[:2]) > 0).astype(jnp.int32)


def continuous(weights, obs):
    return jnp.tanh(weights @ obs[:2])[None]


@jax.jit
def everything(weights, key):
    def reward(weights):
        return rollout("Pendulum-v1", 12, continuous, weights, key)[1].mean()

    cart = rollout("CartPole-v1", 15, discrete, weights, key)
    pendulum = rollout("Pendulum-v1", 12, continuous, weights, key)
    return {
        "cart": cart[0],
        "cart rewards": cart[1],
        "pendulum": pendulum[0],
        "pendulum rewards": pendulum[1],
        "gradient": jax.grad(reward)(weights),
    }


def main():
    return everything(jnp.array([0.7, -0.4]), jax.random.PRNGKey(0))
