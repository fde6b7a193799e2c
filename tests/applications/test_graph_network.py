"""Networks on graphs: convolution by segment sums, attention over neighbours, pooling, ranks and components."""

from __future__ import annotations

from typing import Any

import numpy as onp

from .runner import Program, check

NODES, EDGES, GRAPHS, WIDTH = 14, 30, 3, 6


def programs(xp: Any) -> list[Program]:
    np, lax, nn, ops = xp.numpy, xp.lax, xp.nn, xp.ops

    def convolution(layer, h, source, target):
        """Kipf and Welling's: degrees by counting, messages weighted by both ends' degrees."""
        ones = np.ones(EDGES)
        degree = 1 + ops.segment_sum(ones, target, NODES)
        norm = lax.rsqrt(degree[source]) * lax.rsqrt(degree[target])
        messages = (h @ layer["w"])[source] * norm[:, None]
        return ops.segment_sum(messages, target, NODES) + (h @ layer["w"]) / degree[:, None] + layer["b"]

    def attention(layer, h, source, target):
        """Softmax over each node's incoming edges; a node without any keeps its own features."""
        z = h @ layer["w"]
        score = nn.leaky_relu(z[source] @ layer["from"] + z[target] @ layer["to"], 0.2)
        top = ops.segment_max(score, target, NODES)
        weight = np.exp(score - np.where(np.isfinite(top), top, 0.0)[target])
        total = np.zeros(NODES).at[target].add(weight)
        attended = np.zeros_like(z).at[target].add(weight[:, None] * z[source])
        return np.where((total > 0)[:, None], attended / np.maximum(total, 1e-9)[:, None], z)

    def scores(params, graph):
        h = nn.elu(convolution(params["convolution"], graph["features"], graph["source"], graph["target"]))
        h = h + nn.tanh(attention(params["attention"], h, graph["source"], graph["target"]))
        owner = graph["owner"]
        mean = ops.segment_sum(h, owner, GRAPHS) / ops.segment_sum(np.ones(NODES), owner, GRAPHS)[:, None]
        top = ops.segment_max(h, owner, GRAPHS)
        return np.concatenate([mean, top], -1) @ params["head"], h

    def loss(params, graph, labels):
        guesses, h = scores(params, graph)
        return nn.logsumexp(guesses, axis=-1).sum() - guesses[np.arange(GRAPHS), labels].sum() + 1e-3 * np.sum(h**2), h

    def train(state, graph, labels):
        """AdaGrad; the features before the step are returned beside the new parameters."""
        params, squares = state
        (value, h), g = xp.value_and_grad(loss, has_aux=True)(params, graph, labels)
        squares = xp.tree.map(lambda s, g: s + g * g, squares, g)
        return (xp.tree.map(lambda p, g, s: p - 0.1 * g * lax.rsqrt(s + 1e-4), params, g, squares), squares), value, h

    def ranks(source, target, damping):
        """PageRank by iteration to convergence, and how the first page's rank depends on the damping."""

        def solve(damping):
            out = np.zeros(NODES).at[source].add(1.0)

            def body(c):
                r, _, n = c
                share = r / np.maximum(out, 1.0)
                lost = np.sum(np.where(out == 0, r, 0.0))
                new = (1 - damping) / NODES + damping * (np.zeros(NODES).at[target].add(share[source]) + lost / NODES)
                return new, np.sum(np.abs(new - r)), n + 1

            return lax.while_loop(lambda c: (c[1] > 1e-5) & (c[2] < 50), body, (np.full(NODES, 1 / NODES), 1.0, 0))

        (r, gap, n), (dr, _, _) = xp.jvp(solve, (damping,), (1.0,))
        return r, n, dr

    def components(source, target):
        """Labels spread by minima with pointer jumping until nothing changes; sizes; a colouring by greedy choice."""

        def body(c):
            label, _ = c
            new = label.at[target].min(label[source]).at[source].min(label[target])
            return new[new], label

        label, _ = lax.while_loop(lambda c: np.any(c[0] != c[1]), body, (np.arange(NODES), np.full(NODES, -1)))
        neighbours = np.zeros((NODES, NODES), bool).at[source, target].set(True).at[target, source].set(True)
        neighbours = neighbours.at[np.arange(NODES), np.arange(NODES)].set(False)

        def paint(i, colour):
            used = np.zeros(NODES + 1, bool).at[np.where(neighbours[i], colour, NODES)].set(True)
            return colour.at[i].set(np.argmin(used[:NODES]))

        colour = lax.fori_loop(0, NODES, paint, np.full(NODES, NODES))
        return label, np.bincount(label, length=NODES), colour

    def spanning_tree(weights, source, target):
        """Kruskal's: edges in order of weight, trees merged by relabelling; which edges are taken."""
        order = np.argsort(weights)

        def edge(c, e):
            label, total = c
            a, b = label[source[e]], label[target[e]]
            joined = a != b
            return (np.where(joined & (label == b), a, label), total + np.where(joined, weights[e], 0.0)), (
                joined,
                label,
            )

        (label, total), (taken, history) = lax.scan(edge, (np.arange(NODES), 0.0), order)
        return label, total, np.zeros(EDGES, bool).at[order].set(taken), history[-1]

    rng = onp.random.default_rng(15)

    def normal(*shape):
        return (0.5 * rng.standard_normal(shape)).astype(onp.float32)

    graph = {
        "features": normal(NODES, WIDTH), "owner": onp.sort(rng.integers(0, GRAPHS, NODES)).astype(onp.int32),
        "source": rng.integers(0, NODES, EDGES).astype(onp.int32), "target": rng.integers(0, NODES - 1, EDGES).astype(onp.int32),
    }  # fmt: skip
    params = {
        "convolution": {"w": normal(WIDTH, WIDTH), "b": onp.zeros(WIDTH, onp.float32)},
        "attention": {"w": normal(WIDTH, WIDTH), "from": normal(WIDTH), "to": normal(WIDTH)},
        "head": normal(2 * WIDTH, 4),
    }  # fmt: skip
    labels = onp.array([0, 3, 1], onp.int32)
    zeros = xp.tree.map(onp.zeros_like, params)
    ends = (graph["source"], graph["target"])
    return [
        Program("training", train, ((params, zeros), graph, labels), rtol=5e-4, step=True),
        Program("ranks", ranks, (*ends, onp.float32(0.85)), rtol=5e-5),
        Program("components", components, ends),
        Program("spanning tree", spanning_tree, (onp.abs(normal(EDGES)), *ends)),
    ]


def test_graph_network():
    check(programs)
