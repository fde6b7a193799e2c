"""traceax: traces of operators by Hutchinson, Hutch++ and XTrace, and the gradient through an estimate"""

import jax
import jax.numpy as jnp
import lineax as lx
import traceax as tr


def main():
    a = jax.random.normal(jax.random.key(0), (10, 10))
    a = a @ a.T / 10
    operator = lx.MatrixLinearOperator(a, lx.positive_semidefinite_tag)
    key = jax.random.key(1)
    out = {}
    for name, estimator in (
        ("hutchinson", tr.HutchinsonEstimator()),
        ("hutch++", tr.HutchPlusPlusEstimator()),
        ("xtrace", tr.XTraceEstimator()),
    ):
        out[name] = estimator.estimate(key, operator, 6)[0]
    return out | {"trace": jnp.trace(a)}
