"""jaxkd: a k-d tree built under jit, nearest neighbours, counts within a radius and k-means"""

import jax
import jaxkd


def main():
    points = jax.random.normal(jax.random.key(0), (50, 2))
    queries = jax.random.normal(jax.random.key(1), (6, 2))
    tree = jax.jit(jaxkd.build_tree)(points)
    neighbors, distances = jaxkd.query_neighbors(tree, queries, k=4)
    counts = jaxkd.count_neighbors(tree, queries, r=0.5)
    grads = jax.grad(lambda q: jaxkd.query_neighbors(tree, q, k=2)[1].sum())(queries)
    return {"neighbors": neighbors, "distances": distances, "counts": counts, "gradient": grads}
