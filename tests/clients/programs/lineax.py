"""lineax: LU, QR, SVD, CG, GMRES, BiCGStab and tridiagonal solves, operators of every kind, gradients through a solve"""

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np


def main():
    r = np.random.default_rng(0)
    a = jnp.asarray(r.normal(size=(5, 5)) + 4 * np.eye(5), jnp.float32)
    spd = a @ a.T
    b = jnp.asarray(r.normal(size=5), jnp.float32)
    tall = jnp.asarray(r.normal(size=(7, 4)), jnp.float32)
    c = jnp.asarray(r.normal(size=7), jnp.float32)
    operator = lx.MatrixLinearOperator(a)
    positive = lx.MatrixLinearOperator(spd, lx.positive_semidefinite_tag)

    def solved(operator, b, solver):
        return lx.linear_solve(operator, b, solver, throw=False).value

    out = {}
    for name, op, v, solver in (
        ("lu", operator, b, lx.LU()), ("qr", operator, b, lx.QR()), ("svd", operator, b, lx.SVD()),
        ("least squares", lx.MatrixLinearOperator(tall), c, lx.QR()), ("cholesky", positive, b, lx.Cholesky()),
        ("cg", positive, b, lx.CG(1e-6, 1e-6)), ("gmres", operator, b, lx.GMRES(1e-5, 1e-5)),
        ("bicgstab", operator, b, lx.BiCGStab(1e-5, 1e-5)), ("auto", operator, b, lx.AutoLinearSolver(well_posed=True)),
        ("diagonal", lx.DiagonalLinearOperator(jnp.arange(1.0, 6)), b, lx.Diagonal()),
        ("tridiagonal", lx.TridiagonalLinearOperator(jnp.full(5, 4.0), jnp.ones(4), jnp.full(4, 2.0)), b, lx.Tridiagonal()),
    ):  # fmt: skip
        out[name] = jax.jit(solved, static_argnums=2)(op, v, solver)
    grad = jax.jit(jax.grad(lambda a, b: jnp.sum(solved(lx.MatrixLinearOperator(a), b, lx.LU()) ** 2), (0, 1)))(a, b)
    jacobian = lx.JacobianLinearOperator(lambda x, _: jnp.tanh(a @ x), b)
    out |= {"gradient": grad[0], "gradient of b": grad[1], "jacobian": jacobian.mv(b), "transposed": jacobian.T.mv(b),
            "batched": jax.vmap(lambda v: solved(operator, v, lx.LU()))(jnp.stack([b, 2 * b])),
            "jvp": jax.jvp(lambda a: solved(lx.MatrixLinearOperator(a), b, lx.QR()), (a,), (a * 0.1,))[1]}  # fmt: skip
    return out
