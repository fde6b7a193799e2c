"""Products of quire.numpy, from dot to einsum, against jax.numpy."""

from __future__ import annotations

import numpy as np
import pytest

import quire.numpy as qnp

from .numpy_cases import KINDS, array_of, call, check_calls, shown

SHAPES = [  # of matmul's operands
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((5, 1, 2, 3), (6, 3, 4)), ((1, 2, 3), (5, 3, 4)),
    ((6, 1, 2, 3), (1, 5, 3, 4)), ((2, 0), (0, 3)), ((0, 3), (3, 2)), ((5, 2, 3), (1, 3, 1)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", KINDS)
def test_products(dtype):
    def a(*shape, seed=0):
        return array_of(dtype, *shape, seed=seed, low=-2, high=3)

    calls = [call("matmul", a(*s), a(*t, seed=1)) for s, t in (SHAPES if dtype == "float32" else SHAPES[:8])]
    calls += [call("dot", a(*s), a(*t)) for s, t in (((3,), (3,)), ((2, 3), (4, 3, 2)), ((), (3,)), ((2, 3), (3,)))]
    calls += [call("vdot", a(2, 3), a(3, 2)), call("vecdot", a(2, 3), a(3)), call("matvec", a(4, 2, 3), a(3))]
    calls += [call("vecdot", a(3, 2), a(3, 2, seed=3), axis=0), call("vecmat", a(2), a(4, 2, 3))]
    calls += [call("inner", a(2, 3), a(4, 3)), call("inner", a(), a(3)), call("outer", a(2, 2), a(3))]
    calls += [call("tensordot", a(2, 3, 4), a(3, 4, 5)), call("tensordot", a(2, 3), a(3, 2), axes=1)]
    calls += [call("tensordot", a(2, 3), a(2, 3), axes=x) for x in (0, 2, ((0, 1), (0, 1)), (1, 1), ([-1], [1]))]
    if dtype != "bool":
        calls += [call("kron", a(2, 3), a(2)), call("kron", a(2), a(3, 1, 2))]
        calls += [call("cross", a(4, 3), a(3)), call("cross", a(2), a(5, 2)), call("cross", a(3, 4), a(3, 4), axis=0)]
        calls += [call("cross", a(3, 4), a(4, 2), axisa=0, axisc=0)]
    check_calls(calls, rtol=1e-2 if dtype == "float16" else None)


def test_promotion_and_accumulation():
    i, f, h = array_of("int8", 2, 3), array_of("float32", 3, 2), array_of("float16", 3, 2)
    calls = [call(n, i, x) for n in ("matmul", "dot") for x in (f, h, array_of("int32", 3, 2), array_of("bool", 3, 2))]
    calls += [call(n, i, i.T, preferred_element_type="int32") for n in ("matmul", "dot")]
    calls += [call("tensordot", h, h, preferred_element_type="float32"), call("dot", 2, 3.0), call("dot", f, 2)]
    calls += [call("inner", i, i, preferred_element_type="float32"), call("matmul", f.T, f, precision="highest")]
    calls += [call("einsum", "ij,jk", i, i.T, preferred_element_type="int32"), call("outer", 2, f), call("kron", f, 2)]
    check_calls(calls, rtol=1e-2)


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ij->ji", (2, 3)), ("ii", (3, 3)), ("ii->i", (3, 3)),
    ("ij->", (2, 3)), ("i,j->ij", (2,), (3,)), ("ij,ij->i", (2, 3), (2, 3)), ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
    ("...ij,...jk->...ik", (5, 2, 3), (3, 4)), ("i...->...", (2, 3)), ("ij,kl->il", (2, 3), (4, 5)),
    ("abc,cd,de->abe", (2, 3, 4), (4, 5), (5, 2)), ("ij,j,i->", (2, 3), (3,), (2,)), ("iij->j", (3, 3, 2)),
    ("ij,ij,ij->ij", (2, 3), (2, 3), (2, 3)), ("ab,cb->ac", (1, 3), (4, 3)), (",i->i", (), (3,)), ("i,->i", (3,), ()),
    ("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)), ("ij, jk -> ki", (2, 3), (3, 4)), ("ba", (2, 3)),
    ("iji,jk->k", (2, 3, 2), (3, 4)), ("i,i,i->", (3,), (3,), (3,)), ("...,...->...", (2, 3), (3,)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "int32", "complex64"])
def test_einsum(dtype):
    terms = [(t, [array_of(dtype, *s, seed=k) for k, s in enumerate(shapes)]) for t, *shapes in EINSUMS]
    calls = [call("einsum", t, *xs) for t, xs in (terms if dtype == "float32" else terms[::3])]
    if dtype == "float32":
        x, y = array_of(dtype, 2, 3), array_of(dtype, 3, 4)
        calls += [call("einsum", terms[12][0], *terms[12][1], optimize=o) for o in (True, False, "greedy", "optimal")]
        calls += [call("einsum", x, [0, 1], y, [1, 2], [0, 2]), call("einsum", x, [0, 1], y, [1, 2])]
        calls += [call("einsum", x, [1, 0])]
    check_calls(calls)


def test_einsum_path():
    x, y, z = (qnp.ones(s) for s in ((2, 3), (3, 4), (4, 5)))
    path, text = qnp.einsum_path("ij,jk,kl->il", x, y, z)
    assert sorted(len(p) for p in path) == [2, 2] and "ij,jk,kl->il" in str(text)


A, B = np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)
ERRORS = [
    (call("matmul", A, B), TypeError, r"quire.numpy.matmul: f32\[2,3\] @ f32\[2,3\]: the last dimension"),
    (call("matmul", A, 3), ValueError, "quire.numpy.matmul: input operand 1 must have ndim at least 1"),
    (call("matmul", [1], A), TypeError, "quire.numpy.matmul: .*list"),
    (call("matmul", np.ones((2, 1, 3)), np.ones((3, 3, 1))), (TypeError, ValueError), "quire.numpy.matmul: incompatible"),
    (call("dot", A, B), TypeError, "quire.numpy.dot: the contracted dimensions"),
    (call("vdot", A, np.ones(4)), TypeError, "quire.numpy.vdot: "),
    (call("vecdot", A, np.ones(4)), ValueError, "quire.numpy.vecdot: sizes along the axis differ"),
    (call("matvec", np.ones(3), A), ValueError, "quire.numpy.matvec: expected matrices and vectors"),
    (call("matvec", A, np.ones(4)), (TypeError, ValueError), "quire.numpy.matvec: "),
    (call("vecmat", np.ones(3), A), (TypeError, ValueError), "quire.numpy.vecmat: "),
    (call("inner", A, np.ones(4)), TypeError, "quire.numpy.inner: the last dimensions"),
    (call("tensordot", A, B, 3), TypeError, "quire.numpy.tensordot: axes 3"),
    (call("tensordot", A, B, ((0,), (1,))), TypeError, "quire.numpy.tensordot: axis 0"),
    (call("tensordot", A, B, ((0, 1), (1,))), TypeError, "quire.numpy.tensordot: axes lists"),
    (call("cross", np.ones(4), np.ones(3)), ValueError, "quire.numpy.cross: vectors must have 2 or 3"),
    (call("einsum", "ij,jk", A), ValueError, "quire.numpy.einsum: "),
    (call("einsum", "ij,jk", A, B), (ValueError, TypeError), "quire.numpy.einsum: "),
    (call("einsum", "ijk->i", A), ValueError, "quire.numpy.einsum: "),
    (call("einsum", "ij->k", A), ValueError, "quire.numpy.einsum: "),
    (call("einsum", "ij", [[1]]), TypeError, "quire.numpy.einsum: .*list"),
    (call("outer", [1], A), TypeError, "quire.numpy.outer: .*list"),
]  # fmt: skip


@pytest.mark.parametrize("case", ERRORS, ids=lambda c: f"{c[0][0]}{shown(c[0][1])}")
def test_errors(case):
    (name, args, kwargs), kind, text = case
    with pytest.raises(kind, match=text):
        getattr(qnp, name)(*args, **kwargs)
