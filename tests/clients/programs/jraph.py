"""jraph: a message passing network with segment softmax over a padded batch of graphs, and its gradient"""

import jax
import jax.numpy as jnp
import jraph
import numpy as np

r = np.random.default_rng(0)
W = {k: jnp.asarray(r.normal(size=s) / 3, jnp.float32) for k, s in {"e": (9, 4), "n": (8, 4), "a": (9, 1)}.items()}


def graph(nodes, edges, seed):
    r = np.random.default_rng(seed)
    return jraph.GraphsTuple(
        nodes=jnp.asarray(r.normal(size=(nodes, 4)), jnp.float32), edges=jnp.asarray(r.normal(size=(edges, 1)), jnp.float32),
        senders=jnp.asarray(r.integers(0, nodes, edges)), receivers=jnp.asarray(r.integers(0, nodes, edges)),
        n_node=jnp.array([nodes]), n_edge=jnp.array([edges]), globals=jnp.zeros((1, 1)),
    )  # fmt: skip


def network(w, g):
    def edge(e, s, t, _):
        return jnp.tanh(jnp.concatenate([s, t, e[:, :1]], -1) @ w["e"])

    def node(n, s, t, _):
        return jnp.tanh(jnp.concatenate([n, t], -1) @ w["n"])

    g = jraph.GraphNetwork(edge, node, None)(g)
    logits = g.edges.sum(-1)
    weights = jraph.segment_softmax(logits, g.receivers, g.nodes.shape[0])
    pooled = jraph.segment_sum(weights[:, None] * g.edges, g.receivers, g.nodes.shape[0])
    return g.nodes + pooled


def main():
    batch = jraph.pad_with_graphs(jraph.batch([graph(3, 5, 1), graph(4, 6, 2)]), 10, 14, 3)
    mask = jraph.get_node_padding_mask(batch)

    def loss(w):
        return jnp.sum(jnp.where(mask[:, None], network(w, batch), 0) ** 2)

    value, grads = jax.jit(jax.value_and_grad(loss))(W)
    first = jraph.unbatch(batch)[0]
    return {"loss": value, "edge gradient": grads["e"], "node gradient": grads["n"], "out": network(W, batch), "nodes": first.nodes,
            "degree": jraph.segment_sum(jnp.ones(14), batch.receivers, 10),
            "max": jraph.segment_max_or_constant(batch.edges, batch.receivers, 10)}  # fmt: skip
