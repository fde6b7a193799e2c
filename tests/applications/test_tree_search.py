"""Searches: a tree that grows in arrays by walks of a length that data decides, and beams of sequences."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

NODES, ACTIONS = 8, 3


def programs(xp: Any) -> list[Program]:
    np, lax = xp.numpy, xp.lax

    def walk(tree, prior):
        """From the root to a place where there is no node yet, by upper confidence bounds."""
        children, visits, values, _ = tree

        def body(state):
            _, _, node, depth = state
            mean = np.where(visits[node] > 0, values[node] / np.maximum(visits[node], 1), 0.0)
            bonus = prior[node % prior.shape[0]] * np.sqrt(visits[node].sum() + 1.0) / (1 + visits[node])
            action = np.argmax(mean + bonus).astype("int32")
            return node, action, children[node, action], depth + 1

        zero = np.int32(0)
        return lax.while_loop(lambda s: (s[2] >= 0) & (s[3] < 5), body, (zero, zero, zero, zero))

    def simulate(tree, prior, rewards):
        children, visits, values, count = tree
        node, action, beyond, depth = walk(tree, prior)
        new = np.minimum(count, NODES - 1)
        children = np.where(beyond < 0, children.at[node, action].set(new), children)
        reward = rewards[(node * ACTIONS + action) % rewards.shape[0]]
        tree = (
            children, visits.at[node, action].add(1), values.at[node, action].add(reward),
            count + (beyond < 0).astype("int32"),
        )  # fmt: skip
        return tree, (node, action, depth)

    def search(prior, rewards):
        shape = (NODES, ACTIONS)
        tree = np.full(shape, -1, "int32"), np.zeros(shape, "int32"), np.zeros(shape, "float32"), np.int32(1)
        return lax.scan(lambda tree, _: simulate(tree, prior, rewards), tree, None, length=6)

    def several(priors, rewards):
        return xp.vmap(search, (0, None))(priors, rewards)

    def grow(tree, prior, rewards):
        return simulate(tree, prior, rewards)

    def beams(scores, width=4):
        """The likeliest sequences of a chain, and what the best of them owes to each score."""

        def step(state, score):
            sequences, totals, t = state
            before = sequences[:, np.maximum(t - 1, 0)] % score.shape[0]
            all_totals = totals[:, None] + xp.nn.log_softmax(score[before], -1)
            totals, chosen = lax.top_k(all_totals.reshape(-1), width)
            parent, token = chosen // score.shape[1], chosen % score.shape[1]
            return (sequences[parent].at[:, t].set(token.astype("int32")), totals, t + 1), parent

        first = np.where(np.arange(width) == 0, 0.0, -1e9).astype("float32")
        start = np.zeros((width, scores.shape[0]), "int32"), first, np.int32(0)
        (sequences, totals, _), parents = lax.scan(step, start, scores)
        return totals[0], (sequences, totals, parents)

    rng = onp.random.default_rng(0)
    priors = rng.dirichlet(onp.ones(ACTIONS), (3, 4)).astype(onp.float32)
    rewards = rng.standard_normal(7).astype(onp.float32)
    scores = rng.standard_normal((7, 3, 9)).astype(onp.float32)
    shape = (NODES, ACTIONS)
    tree = onp.full(shape, -1, onp.int32), onp.zeros(shape, onp.int32), onp.zeros(shape, onp.float32), onp.int32(1)
    return [
        Program("several searches", several, (priors, rewards)),
        Program("grow", grow, (tree, priors[0], rewards), step=True),
        Program("beams", xp.value_and_grad(beams, has_aux=True), (scores,)),
    ]


def test_tree_search():
    check(programs)
