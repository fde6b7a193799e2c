"""ott-jax: Sinkhorn on point clouds, its divergence and gradient, Gromov-Wasserstein, and exact transport in one dimension"""

import jax
import jax.numpy as jnp
from ott.geometry import geometry, pointcloud
from ott.problems.linear import linear_problem
from ott.solvers.linear import sinkhorn
from ott.tools import sinkhorn_divergence


def main():
    x = jax.random.normal(jax.random.key(0), (12, 2))
    y = jax.random.normal(jax.random.key(1), (10, 2)) + 0.5

    def cost(x):
        geom = pointcloud.PointCloud(x, y, epsilon=0.5)
        return sinkhorn.Sinkhorn(threshold=1e-4)(linear_problem.LinearProblem(geom)).reg_ot_cost

    out = sinkhorn.Sinkhorn()(linear_problem.LinearProblem(pointcloud.PointCloud(x, y, epsilon=0.5)))
    divergence = sinkhorn_divergence.sinkhorn_divergence(pointcloud.PointCloud, x, y, epsilon=0.5)[0]
    matrix = geometry.Geometry(cost_matrix=jnp.abs(x[:, :1] - y[:, 0][None]), epsilon=0.3)
    return {
        "cost": jax.jit(cost)(x),
        "gradient": jax.grad(cost)(x),
        "plan": out.matrix,
        "potential": out.f - out.f.mean(),
        "divergence": divergence,
        "by matrix": sinkhorn.Sinkhorn()(linear_problem.LinearProblem(matrix)).primal_cost,
    }
