"""Shapes and order, selection and indices, and creation in quire.numpy against jax.numpy."""

from __future__ import annotations

import numpy as np
import pytest

import quire
import quire.numpy as qnp

from .numpy_cases import array_of, call, check_calls, shown

X = array_of("float32", 2, 3, 4)
I = array_of("int32", 2, 3)
V = array_of("int8", 5)
S = array_of("float16")
E = np.zeros((0, 3), np.float32)


def test_shapes():
    calls = [call("reshape", X, s) for s in (-1, (4, 6), (3, -1), [2, 12], (-1, 1, 8), (24,))]
    calls += [call("reshape", X, (4, 6), order="F"), call("reshape", E, (3, 0)), call("reshape", S, (1, 1))]
    calls += [call("ravel", x) for x in (X, S, E)] + [call("ravel", X, order="F")]
    calls += [call("transpose", X, a) for a in (None, (1, 2, 0), (-1, 0, 1))] + [call("transpose", S)]
    calls += [call("permute_dims", X, (2, 0, 1)), call("matrix_transpose", X), call("swapaxes", X, 0, -1)]
    calls += [call("moveaxis", X, s, d) for s, d in ((0, -1), ((0, 1), (-1, 0)), (2, 0), ([2, 0], [0, 1]))]
    calls += [call("rollaxis", X, a, s) for a, s in ((2, 0), (0, 3), (1, -1), (-1, 1))]
    calls += [call("squeeze", X[:1], a) for a in (None, 0, (0,), -3)] + [call("squeeze", X[:1, :1])]
    calls += [call("expand_dims", X, a) for a in (0, -1, (0, 2), (-1, 0))] + [call("expand_dims", S, 0)]
    calls += [call(f"atleast_{n}d", x) for n in (1, 2, 3) for x in (S, V, I, X, 3.0)] + [call("atleast_2d", S, V)]
    calls += [call(n, x) for n in ("shape", "ndim", "size") for x in (X, S, E)] + [call("size", X, (0, -1))]
    calls += [call("astype", X, d) for d in ("int32", "bool", "float16", "complex64")] + [call("astype", I, "uint8")]
    check_calls(calls)


def test_broadcasting_and_joining():
    calls = [call("broadcast_to", S, (2, 2)), call("broadcast_to", V, (2, 5)), call("broadcast_to", 3, (2,))]
    calls += [
        call("broadcast_arrays", V, S, np.ones((2, 1), bool)),
        call("broadcast_shapes", (3, 1), (1, 2), (5, 1, 1)),
    ]
    calls += [call("concatenate", [X, X], axis=a) for a in (0, 1, -1, None)] + [call("concatenate", X, axis=1)]
    calls += [call("concatenate", [I, I.astype("float16")]), call("concatenate", [V, V], dtype="float32")]
    calls += [call("concatenate", [E, E, array_of("float32", 2, 3)]), call("concat", [V, I.ravel()], axis=0)]
    calls += [call("stack", [I, I], axis=a) for a in (0, 1, -1, 2)] + [call("stack", [V, V], dtype="float32")]
    calls += [call("stack", X, axis=1), call("stack", [S, S]), call("stack", X), call("stack", [1, 2.5])]
    calls += [call(n, [x, x]) for n in ("vstack", "hstack", "dstack", "column_stack") for x in (S, V, I, X)]
    calls += [call("append", I, I, a) for a in (None, 0, 1)] + [call("append", V, 3)]
    calls += [call("block", [[I, I], [I, I]]), call("block", [V, V]), call("block", [[S, S]]), call("block", V)]
    calls += [call("unstack", X, axis=a) for a in (0, 1, -1)]
    check_calls(calls)


def test_splitting_repeating_and_rolling():
    calls = [call("split", X, 2, a) for a in (0, -1)] + [call("split", V, [1, 3])]
    calls += [call("array_split", V, n) for n in (2, 3, 7)] + [call("array_split", X, 3, axis=-1)]
    calls += [call("split", X, 3, 1), call("array_split", E, 2)]
    calls += [call("hsplit", X, 3), call("vsplit", X, 2), call("dsplit", X, 2), call("hsplit", V, [2])]
    calls += [call("tile", x, r) for x in (S, V, I) for r in (2, (2, 1), (2, 3, 1), 0)]
    calls += [call("repeat", x, 2, axis=a) for x, a in ((X, None), (X, 0), (X, -1), (V, 0), (S, None))]
    calls += [call("repeat", V, np.array([0, 1, 2, 0, 1]), total_repeat_length=n) for n in (4, 6, 2)]
    calls += [call("repeat", X, np.array([1, 0, 2]), axis=1, total_repeat_length=3), call("repeat", V, 0)]
    calls += [call("repeat", I, np.array([2]), axis=0), call("repeat", I, np.array([1, 2, 0]), axis=1)]
    calls += [call("flip", X, a) for a in (None, 0, -1, (0, 2))] + [call("fliplr", X), call("flipud", X)]
    calls += [call("rot90", I, k) for k in (-1, 0, 1, 2, 3, 4)] + [call("rot90", X, 1, (2, 0))]
    calls += [call("roll", X, s) for s in (0, 1, -5, 30)] + [call("roll", X, s, a) for s, a in ((1, 0), (-2, 2))]
    calls += [call("roll", X, (1, 2), (0, 1)), call("roll", X, 1, (0, 2)), call("roll", X, (1, 1), (2, 2))]
    calls += [call("roll", E, 1), call("roll", S, 1), call("roll", X, np.int32(2), 1)]
    calls += [call("resize", x, s) for x in (V, I) for s in (3, 12, (2, 4), (0,))] + [call("resize", E, (2,))]
    check_calls(calls)


def test_trim_zeros():
    x = np.array([0, 0, 1, 0, 2, 0], np.int32)
    check_calls([call("trim_zeros", y, t) for y, t in ((x, "fb"), (x, "f"), (x, "b"), (x * 0, "fb"))])


def test_where_select_and_clip():
    m = array_of("bool", 2, 3, seed=2)
    pairs = [(I, 0), (I, 2.5), (1, 2), (1.0, I), (I, I.astype("float16")), (m, I.astype("int8")), (I, 1j)]
    calls = [call("where", m, a, b) for a, b in pairs] + [call("where", I, 1.0, 0.0), call("where", True, I, 0)]
    calls += [call("where", m[0], I, X[0, 0, 0]), call("where", m), call("where", m, size=2)]
    calls += [call("where", m, size=8, fill_value=-1), call("where", V[0] > 0, V, V)]
    calls += [
        call("select", [I > 1, I > 0], [I, I * 2.0], 7),
        call("select", [m, m], [I, I]),
        call("select", [m[0]], [I]),
    ]
    calls += [
        call("choose", I % 2, [I, -I]),
        call("choose", I, [I, -I], mode="clip"),
        call("choose", I, [1, 2], mode="wrap"),
    ]
    calls += [call("clip", X, a, b) for a, b in ((-1, 1), (None, 0), (0.5, None), (2, -2))]
    calls += [call("clip", I, 0.5, 2), call("clip", V, min=0), call("clip", V, max=np.int8(1)), call("clip", X)]
    calls += [call("clip", X, X[0], 2.0), call("clip", array_of("uint8", 3), 1, 3), call("clip", 5, 0, 3)]
    check_calls(calls)


def test_nonzero_and_masks():
    m = array_of("bool", 2, 3, seed=2)
    calls = [call(n, x) for n in ("nonzero", "argwhere", "flatnonzero") for x in (I, X[0])]
    calls += [call(n, x, size=s) for n in ("nonzero", "argwhere", "flatnonzero") for x in (I, m) for s in (1, 9)]
    calls += [call(n, I, size=9, fill_value=-1) for n in ("nonzero", "argwhere", "flatnonzero")]
    calls += [call("nonzero", I, size=9, fill_value=(5, 6)), call("nonzero", E), call("argwhere", S)]
    calls += [call("extract", m, I), call("extract", m, I, size=2), call("extract", m, I, size=6, fill_value=-1)]
    calls += [
        call("compress", np.array([True, False]), I, axis=0),
        call("compress", np.array([True, False, True]), I, 1),
    ]
    calls += [call("compress", m.ravel(), I), call("compress", np.array([1, 1]), I, 1, size=2, fill_value=9)]
    check_calls(calls)


def test_compress_of_nothing_is_filled_up():
    none = qnp.zeros(0, bool)
    for compress in (qnp.compress, quire.jit(qnp.compress, static_argnames=("size", "axis", "fill_value"))):
        assert compress(none, qnp.zeros(0), size=3).tolist() == [0.0] * 3
        got = compress(none, qnp.zeros((2, 0), int), axis=1, size=2, fill_value=7)
        assert got.tolist() == [[7, 7]] * 2 and got.dtype == np.int32
    assert qnp.extract(none, qnp.zeros(0), size=1, fill_value=np.nan).shape == (1,)


def test_take_and_put():
    i = np.array([[0, -1], [2, 1]], np.int32)
    far = np.array([0, 5, -7], np.int32)
    calls = [call("take", X, i, axis=a) for a in (None, 1, -1)] + [call("take", V, 2), call("take", X, 1, axis=0)]
    calls += [call("take", V, far, mode=m) for m in ("clip", "wrap", "fill")] + [call("take", X, far, 1, mode="clip")]
    calls += [call("take", V, np.array([-2, 1, -1], np.int32), mode=m) for m in ("clip", "wrap")]
    calls += [call("take", V, far, mode="fill", fill_value=3), call("take", X[0, 0], far), call("take", V, far)]
    along = np.argsort(X, axis=1).astype(np.int32)
    calls += [call("take_along_axis", X, along, axis=1), call("take_along_axis", X, along[:, :1], axis=-2)]
    calls += [call("take_along_axis", V, far, axis=None, mode="clip"), call("take_along_axis", V, far, 0)]
    calls += [call("take_along_axis", X, along[:1], axis=1), call("take_along_axis", X[0, 0], far, 0, mode="fill")]
    calls += [call("put_along_axis", I, np.array([[1], [2]]), 9, axis=1, inplace=False)]
    calls += [call("put_along_axis", I, np.array([[1, 0, 1]]), np.array([[7, 8, 9]]), axis=0, inplace=False)]
    calls += [call("put_along_axis", I, np.array([5, 0]), np.array([7, 8]), axis=None, inplace=False)]
    calls += [call("put", I, np.array([0, 4]), np.array([7, 8]), inplace=False), call("put", V, 1, 9, inplace=False)]
    calls += [call("put", I, np.array([0, 9]), 7, mode=m, inplace=False) for m in (None, "clip", "wrap")]
    calls += [call("put", V, np.array([0, 2, 3]), np.array([1, 2]), inplace=False)]
    calls += [call("place", I, I > 0, np.array([7, 8]), inplace=False), call("place", V, V > 99, 1, inplace=False)]
    calls += [call("fill_diagonal", I, 9, inplace=False), call("fill_diagonal", I.T, np.array([4, 5]), inplace=False)]
    calls += [call("fill_diagonal", array_of("float32", 2, 2, 2), 7, inplace=False)]
    check_calls(calls)


def test_insert_and_delete():
    calls = [
        call("delete", V, o) for o in (1, -1, slice(1, 4), slice(None, None, 2), np.array([0, 2]), np.array([0, 0]))
    ]
    calls += [call("delete", X, 1, axis=a) for a in (0, 1, -1)] + [
        call("delete", I, 4),
        call("delete", X, np.array([0, -1]), 1),
    ]
    calls += [call("delete", V, np.array([True, False, False, True, False]))]
    calls += [call("insert", V, o, 9) for o in (0, 2, 5, -1, slice(1, 3))] + [
        call("insert", V, np.array([1, 3]), np.array([7, 8]))
    ]
    calls += [call("insert", V, np.array([3, 1]), np.array([7, 8])), call("insert", V, 1, np.array([7, 8, 9]))]
    calls += [call("insert", I, 1, 9, axis=a) for a in (0, 1)] + [call("insert", I, 1, np.array([7, 8]), axis=1)]
    calls += [call("insert", I, np.array([1]), np.array([[7], [8]]), axis=1), call("insert", I, 2, 5)]
    check_calls(calls)


def test_diagonals_and_index_arithmetic():
    calls = [call("diag", V, k) for k in (-1, 0, 2)] + [call("diag", I, k) for k in (-1, 0, 1, 5)]
    calls += [call("diagflat", I, k) for k in (0, 1)] + [call("diagonal", X, k) for k in (-1, 0, 1, 9)]
    calls += [
        call("diagonal", X, 1, 2, 0),
        call("trace", X),
        call("trace", X, 1, 1, 2),
        call("trace", array_of("int8", 3, 3)),
    ]
    calls += [call("trace", I, dtype="float32"), call("diag", array_of("bool", 3))]
    calls += [call("unravel_index", i, (2, 3)) for i in (5, np.array([0, 4, 9, -1], np.int32))]
    calls += [call("ravel_multi_index", (np.array([0, 1]), np.array([2, 1])), (2, 3), order=o) for o in "CF"]
    calls += [
        call("ravel_multi_index", (np.array([0, 5]), np.array([-2, 1])), (2, 3), mode=m) for m in ("clip", "wrap")
    ]
    check_calls(calls)


def test_creation():
    calls = [call("arange", *a) for a in ((5,), (2, 7), (0, 1, 0.25), (5, 0, -2), (3.5,), (0,))]
    calls += [call("arange", 4, dtype="float16"), call("arange", 1, 9, 3, dtype="uint8")]
    calls += [call("linspace", 0, 1, n) for n in (0, 1, 5)] + [call("linspace", 0, 10, 4, endpoint=False)]
    calls += [
        call("linspace", 0, 10, 4, dtype="int32"),
        call("linspace", np.float32(1), np.array([2.0, 3.0], np.float32), 3),
    ]
    calls += [call("linspace", 0, 1, 3, retstep=True), call("linspace", 0, np.ones(2, np.float32), 3, axis=-1)]
    calls += [call("logspace", 0, 2, 3), call("logspace", 0, 2, 3, base=2.0), call("geomspace", 1, 1000, 4)]
    calls += [call("geomspace", -1, -8, 4), call("eye", 3), call("eye", 2, 4, k=1), call("eye", 3, dtype="int32", k=-1)]
    calls += [call("identity", 2), call("tri", 3, 4, 1), call("tri", 2, dtype="bool"), call("tri", 3, k=-1)]
    calls += [call(n, x, k) for n in ("tril", "triu") for x in (I, X, array_of("bool", 3, 3)) for k in (-1, 0, 1)]
    calls += [call(n, X) for n in ("zeros_like", "ones_like", "empty_like")] + [call("full_like", I, 2.5)]
    calls += [
        call("zeros_like", X, dtype="int8", shape=(2,)),
        call("full", (2, 3), 7),
        call("full", 2, np.ones(2, bool)),
    ]
    calls += [call("full", (2, 3), np.arange(3)), call("full", (), 1j), call("zeros", ()), call("ones", (2, 0), "bool")]
    calls += [call("meshgrid", V, V[:2], indexing=i, sparse=s) for i in ("xy", "ij") for s in (False, True)]
    calls += [
        call("meshgrid", V),
        call("indices", (2, 3)),
        call("indices", (2, 3), sparse=True),
        call("indices", (2,), "float32"),
    ]
    calls += [call("vander", V), call("vander", V, 3, increasing=True), call("vander", X[0, 0], 0)]
    calls += [call("array", x) for x in (1, 2.5, True, 1j, [1, 2], [1, 2.5], [[True], [False]], [])]
    calls += [call("array", X, dtype="int32"), call("array", [1, 2], dtype="float16"), call("array", I, ndmin=4)]
    calls += [call("asarray", x) for x in (X, 3, [1.0], np.int8(3), np.float32(2))] + [call("copy", I)]
    calls += [call("array", [V, V]), call("array", [[V[0], 1.5], [2, 3]])]
    calls += [call("frombuffer", b"abcd", dtype="uint8")]
    check_calls(calls)


ERRORS = [
    (call("reshape", X, (5, 5)), TypeError, r"quire.numpy.reshape: cannot reshape f32\[2,3,4\] of size 24"),
    (call("reshape", X, (-1, -1)), ValueError, "quire.numpy.reshape: at most one"),
    (call("transpose", X, (0, 0, 1)), TypeError, "quire.numpy.transpose: axes"),
    (call("transpose", X, (0, 1, 3)), ValueError, "quire.numpy.transpose: axes 3 is out of bounds"),
    (call("matrix_transpose", V), ValueError, "quire.numpy.matrix_transpose: expected at least 2"),
    (call("squeeze", X, 0), ValueError, "quire.numpy.squeeze: dimension 0 .* has size 2"),
    (call("expand_dims", X, 5), ValueError, "quire.numpy.expand_dims: axis 5 is out of bounds"),
    (call("moveaxis", X, (0, 1), 0), ValueError, "quire.numpy.moveaxis: source"),
    (call("broadcast_to", X, (2, 2)), ValueError, "quire.numpy.broadcast_to: f32"),
    (call("broadcast_shapes", (2,), (3,)), ValueError, "quire.numpy.broadcast_shapes: incompatible"),
    (call("concatenate", []), ValueError, "quire.numpy.concatenate: need at least one"),
    (call("concatenate", [S, S]), ValueError, "quire.numpy.concatenate: zero-dimensional"),
    (call("concatenate", [X, I]), TypeError, "quire.numpy.concatenate: shapes must be equal"),
    (call("stack", [X, I]), ValueError, "quire.numpy.stack: all arrays must have the same shape"),
    (call("stack", []), ValueError, "quire.numpy.stack: need at least one"),
    (call("vstack", 3), TypeError, "quire.numpy.vstack: "),
    (call("hstack", [V, [1]]), TypeError, "quire.numpy.hstack: .*list"),
    (call("split", V, 2), ValueError, "quire.numpy.split: dimension 0 of size 5 cannot"),
    (call("split", V, 0), ValueError, "quire.numpy.split: the number of sections"),
    (call("block", (V,)), TypeError, "quire.numpy.block: tuples"),
    (call("block", [[V], V]), ValueError, "quire.numpy.block: lists must be nested"),
    (call("concatenate", np.zeros((0,), "float32")), ValueError, "quire.numpy.concatenate: need at least one array"),
    (call("concatenate", qnp.zeros((0,))), ValueError, "quire.numpy.concatenate: need at least one array"),
    (call("concatenate", 3.5), TypeError, "quire.numpy.concatenate: expected a sequence of arrays, got float"),
    (call("repeat", V, -1), ValueError, "quire.numpy.repeat: .*negative"),
    (call("repeat", V, np.array([1, 2])), ValueError, "quire.numpy.repeat: repeats of shape"),
    (call("flip", [1, 2]), TypeError, "quire.numpy.flip: .*list"),
    (call("roll", X, 1, 7), ValueError, "quire.numpy.roll: axis 7"),
    (call("rot90", X, 1, (1, 1)), ValueError, "quire.numpy.rot90: axes must be different"),
    (call("unstack", S), ValueError, "quire.numpy.unstack: "),
    (call("where", V > 0, 1), ValueError, "quire.numpy.where: "),
    (call("select", [V > 0], []), ValueError, "quire.numpy.select: "),
    (call("take", V, 1.5), ValueError, r"quire.numpy.take: indices must be integers, got f32\[\]: convert them"),
    (call("take", V, 1, mode="promise_in_bounds"), ValueError, "quire.numpy.take: mode must be 'fill', 'clip' or 'wrap', got 'promise_"),
    (call("take", V, 1, mode="raise"), (ValueError, NotImplementedError), "quire.numpy.take: "),
    (call("put", V, 1, 2), ValueError, "quire.numpy.put: arrays are immutable"),
    (call("fill_diagonal", V, 2, inplace=False), ValueError, "quire.numpy.fill_diagonal: requires"),
    (call("delete", V, 9), IndexError, "quire.numpy.delete: index out of bounds"),
    (call("delete", V, [1]), TypeError, "quire.numpy.delete: requires ndarray .*list.* argument obj"),
    (call("delete", V, 1.0), ValueError, r"quire.numpy.delete: obj must be integers, bools or a slice, got dtype float32"),
    (call("insert", V, [1], 0), TypeError, "quire.numpy.insert: requires ndarray .*list.* argument obj"),
    (call("insert", V, 1.0, 0), ValueError, r"quire.numpy.insert: obj must be integers, bools or a slice, got f32\[\]"),
    (call("repeat", V, [1] * 5), TypeError, "quire.numpy.repeat: requires ndarray .*list.* position 1"),
    (call("compress", [True], V), TypeError, "quire.numpy.compress: requires ndarray .*list.* position 0"),
    (call("extract", V > 0, [1] * 5), TypeError, "quire.numpy.extract: requires ndarray .*list.* position 1"),
    (call("put", V, 1, 2, mode="drop", inplace=False), ValueError, "quire.numpy.put: mode must be 'clip' or 'wrap', got 'drop'"),
    (call("nonzero", V, size=2, fill_value=np.array([1, 2])), ValueError, "quire.numpy.nonzero: fill_value must be a scalar, or a tuple of 1"),
    (call("nonzero", X, fill_value=(1,)), ValueError, "fill_value must be a scalar, or a tuple of 3, .*got 1 values"),
    (call("full", 2, 1j, "float32"), TypeError, "full: expected a real number for dtype float32, got the complex 1j"),
    (call("arange", 2, dtype=bool), TypeError, "quire.numpy.arange: dtype must be of numbers, got bool"),
    (call("tri", 3, -1), TypeError, "quire.numpy.tri: negative dimensions are not allowed, got 3 and -1"),
    (call("diag", X), ValueError, "quire.numpy.diag: the input must be 1- or 2-dimensional"),
    (call("diagonal", V), ValueError, "quire.numpy.diagonal: requires"),
    (call("ravel_multi_index", (5, 0), (2, 3)), ValueError, "quire.numpy.ravel_multi_index: invalid entry"),
    (call("linspace", 0, 1, -1), ValueError, "quire.numpy.linspace: "),
    (call("meshgrid", I), ValueError, "quire.numpy.meshgrid: "),
    (call("tril", S), ValueError, "quire.numpy.tril: "),
    (call("zeros", (-1,)), (ValueError, TypeError), "quire.numpy.zeros: "),
    (call("array", [[1, 2], [3]]), (ValueError, TypeError), "quire.numpy.array: "),
    (call("array", ["a"]), TypeError, "quire.numpy.array: "),
    (call("arange", 0, 5, 0), (ValueError, ZeroDivisionError), "quire.numpy.arange: "),
    (call("vander", I), ValueError, "quire.numpy.vander: "),
]  # fmt: skip


@pytest.mark.parametrize("case", ERRORS, ids=lambda c: f"{c[0][0]}{shown(c[0][1])}")
def test_errors(case):
    (name, args, kwargs), kind, text = case
    with pytest.raises(kind, match=text):
        getattr(qnp, name)(*args, **kwargs)


def test_piecewise():
    x = np.linspace(-2, 2, 5, dtype=np.float32)
    conditions, functions = [x < 0, x >= 1], [lambda v: -v, 5.0, lambda v: v * v]
    np.testing.assert_array_equal(
        qnp.piecewise(qnp.asarray(x), conditions, functions), np.piecewise(x, conditions, functions)
    )


def test_split_at_indices_takes_slices_as_numpy_does():
    for indices in ([4, 2, 9], [-2], [0, 0]):
        for got, want in zip(qnp.split(V, indices), np.split(V, indices), strict=True):
            np.testing.assert_array_equal(got, want)


def test_functions_of_functions_and_text():
    np.testing.assert_array_equal(qnp.fromiter(range(3), dtype="int32"), [0, 1, 2])
    np.testing.assert_array_equal(qnp.fromfunction(lambda i, j: i * 10 + j, (2, 3)), [[0, 1, 2], [10, 11, 12]])
    np.testing.assert_array_equal(qnp.fromstring("1 2.5", sep=" "), np.array([1, 2.5], np.float32))
    np.testing.assert_array_equal(qnp.from_dlpack(X), X)
