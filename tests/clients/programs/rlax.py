"""rlax: TD(lambda), V-trace, Retrace, PPO and DQN losses with their gradients, distributional projections, transforms"""

import jax
import jax.numpy as jnp
import numpy as np
import rlax


def main():
    r = np.random.default_rng(0)
    n = 8
    v, v1, rewards = (jnp.asarray(r.normal(size=n), jnp.float32) for _ in range(3))
    discounts = jnp.full(n, 0.95)
    rho = jnp.asarray(np.exp(r.normal(size=n) / 3), jnp.float32)
    logits = jnp.asarray(r.normal(size=(n, 4)), jnp.float32)
    actions = jnp.asarray(r.integers(0, 4, n))

    def actor_critic(logits, v):
        advantages = rlax.td_lambda(v, rewards, discounts, v1, 0.9)
        policy = rlax.policy_gradient_loss(logits, actions, advantages, jnp.ones(n))
        return policy + jnp.mean(advantages**2) + 0.01 * rlax.entropy_loss(logits, jnp.ones(n))

    def dqn(q):
        td = jax.vmap(rlax.double_q_learning)(q, actions, rewards, discounts, q * 0.9, q[::-1])
        return jnp.mean(rlax.huber_loss(td))

    value, grads = jax.jit(jax.value_and_grad(actor_critic, argnums=(0, 1)))(logits, v)
    atoms = jnp.linspace(-2, 2, 11)
    return {
        "actor critic": value,
        "gradient": grads[0],
        "gradient of values": grads[1],
        "dqn": jax.grad(dqn)(logits),
        "vtrace": rlax.vtrace(v, v1, rewards, discounts, rho),
        "returns": rlax.lambda_returns(rewards, discounts, v1, 0.8),
        "gae": rlax.truncated_generalized_advantage_estimation(rewards, discounts, 0.9, jnp.append(v, 0.3)),
        "ppo": rlax.clipped_surrogate_pg_loss(rho, v, 0.2),
        "projection": rlax.categorical_l2_project(atoms * 0.9 + 0.3, jax.nn.softmax(jnp.arange(11.0) / 3), atoms),
        "transform": rlax.signed_hyperbolic(v) + rlax.signed_parabolic(v),
        "two hot": rlax.transform_to_2hot(v, -3.0, 3.0, 13),
    }
