"""Functions of quire.lax that are made of others: ragged_dot, shapes of results, stack, approx_max_k, composite."""

import numpy as np
import pytest

import quire as qr
import quire.numpy as qnp
from quire import lax

rng = np.random.default_rng(0)
A = rng.normal(size=(7, 3)).astype(np.float32)
B = rng.normal(size=(4, 3, 2)).astype(np.float32)
SIZES = [(2, 0, 3, 2), (0, 0, 0, 0), (1, 1, 1, 1), (7, 0, 0, 0)]


def ragged(a, b, sizes):
    out = np.zeros((a.shape[0], b.shape[2]), np.float64)
    start = 0
    for g, n in enumerate(sizes):
        out[start : start + n] = a[start : start + n].astype(np.float64) @ b[g]
        start += n
    return out


def test_ragged_dot():
    @qr.compile
    def f(sizes):
        values = qr.vmap(lambda s: lax.ragged_dot(A, B, s))(sizes)
        return values, qr.grad(lambda a, b: (lax.ragged_dot(a, b, sizes[0]) ** 2).sum(), argnums=(0, 1))(A, B)

    values, (da, db) = f(np.asarray(SIZES, np.int32))
    for got, sizes in zip(values, SIZES):
        np.testing.assert_allclose(np.asarray(got), ragged(A, B, sizes), rtol=1e-5, atol=1e-6)
    full = [np.eye(4)[g] for g, n in enumerate(SIZES[0]) for _ in range(n)]
    of_row = np.einsum("rg,gkn->rkn", full, B)  # the matrix of each row
    y = 2 * ragged(A, B, SIZES[0])
    np.testing.assert_allclose(np.asarray(da), np.einsum("rn,rkn->rk", y, of_row), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(db), np.einsum("rg,rk,rn->gkn", full, A, y), rtol=1e-4, atol=1e-5)
    with pytest.raises(
        ValueError, match=r"ragged_dot: expected lhs \(m, k\), .* got f32\[7,3\], f32\[3,2\] and i32\[4\]"
    ):
        lax.ragged_dot(A, B[0], np.zeros(4, np.int32))
    with pytest.raises(TypeError, match="group_sizes must be integers, got f32"):
        lax.ragged_dot(A, B, np.zeros(4, np.float32))


def test_shapes_as_jax_computes_them():
    import jax.lax as jlax

    calls = [
        ("conv_shape_tuple", ((1, 3, 10, 11), (8, 3, 3, 3), (1, 2), [(0, 0), (1, 1)])),
        ("conv_shape_tuple", ((4, 3, 10), (8, 3, 3), (3,), [(0, 0)], 2)),
        ("conv_general_shape_tuple", ((1, 9, 9, 3), (3, 3, 3, 8), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC"))),
        ("conv_transpose_shape_tuple", ((1, 5, 5, 3), (3, 3, 3, 8), (2, 2), "SAME", ("NHWC", "HWIO", "NHWC"))),
        ("conv_transpose_shape_tuple", ((1, 5, 5, 3), (3, 3, 3, 8), (2, 2), "VALID", ("NHWC", "HWIO", "NHWC"))),
        ("conv_general_permutations", (("NHWC", "HWIO", "CHWN"),)),
        ("reduce_window_shape_tuple", ((10, 10), (3, 3), (2, 2), [(0, 0), (1, 1)], (2, 1), (1, 2))),
    ]
    for name, args in calls:
        assert getattr(lax, name)(*args) == tuple(getattr(jlax, name)(*args)), (name, args)


def test_stack_unstack_broadcast_like_and_kin():
    x = qnp.arange(6).reshape(2, 3)
    for axis in (0, 1, -1):
        np.testing.assert_array_equal(np.asarray(lax.stack([x, x + 1], axis)), np.stack([x, x + 1], axis))
    for axis in (0, -1):
        np.testing.assert_array_equal(np.asarray(lax.stack(lax.unstack(x, axis), axis)), np.asarray(x))
    wide = qnp.ones((4, 2, 3))
    for shape in ((3,), (2, 1), (), (1, 1, 3), (4, 2, 3)):
        part = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        got = lax.broadcast_like(part.astype(np.float32), wide)
        np.testing.assert_array_equal(np.asarray(got), np.broadcast_to(part, wide.shape))
    values, at = lax.approx_min_k(qnp.array([3.0, 1.0, 2.0]), 2)
    assert values.tolist() == [1.0, 2.0] and at.tolist() == [1, 2]
    f = lax.composite(lambda x, *, n: lax.sin(x) * n, name="my.sine")
    assert qr.make_jaxpr(lambda x: f(x, n=2.0))(1.0).eqns[0].source.scope == "my.sine"
    assert lax.dtype(2) == np.int32 and isinstance(lax.stage(1.5), qr.Array)
    assert qr.make_jaxpr(lambda: lax.stage(1.5))().eqns[0].primitive is lax.copy_p


ERRORS = [
    (lambda: lax.stack([]), ValueError, "stack: expected at least one operand"),
    (lambda: lax.stack([A, B]), ValueError, r"stack: all operands must have one shape, got \(7, 3\), \(4, 3, 2\)"),
    (lambda: lax.stack([A], 3), ValueError, "stack: axis 3 is out of range for a result of rank 3"),
    (lambda: lax.unstack(A, 2), ValueError, r"unstack: axis 2 is out of range for f32\[7,3\]"),
    (lambda: lax.broadcast_like(A, B), ValueError, "broadcast_shapes: incompatible shapes"),
    (lambda: lax.broadcast_like(B, A[:, :1]), ValueError, "broadcast_"),
    (lambda: lax.approx_max_k(np.arange(3), 1), TypeError, "approx_max_k: operand must be an array of floats, got i32"),
    (lambda: lax.composite(3, "a"), TypeError, "composite: decomposition must be a function, got 3"),
]


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def test_primitives_have_jaxs_names():
    import jax.lax as jlax

    from quire.absent_names import reason_for

    missing = [n for n in dir(jlax) if n.endswith("_p") and not hasattr(lax, n) and reason_for("lax", n) is None]
    assert not missing
    assert (
        lax.scatter_add_p.name == "scatter-add" and lax.add_p is qr.make_jaxpr(lambda x: x + x)(1.0).eqns[0].primitive
    )


def test_indices_of_a_dtype_that_cannot_count_the_dimension():
    """Negative ones count from the end all the same; JAX adds 300 modulo 256."""
    x = np.arange(300, dtype=np.float32)

    def f(i):
        return (
            lax.dynamic_slice(x, (i,), (2,)),
            qnp.argmax(lax.dynamic_update_slice(x, np.full(1, 1e6, np.float32), (i,))),
            lax.dynamic_index_in_dim(x, i),
        )

    for call in (f, qr.jit(f)):
        part, at, element = call(np.int8(-5))
        assert list(part) == [295, 296] and at == 295 and list(element) == [295]
        assert list(call(np.int8(100))[0]) == [100, 101]
