"""Sets of quire.numpy: NumPy's results without `size`, jax.numpy's with it."""

from __future__ import annotations

import numpy as np
import pytest

import quire
import quire.numpy as qnp

from .numpy_cases import array_of, call, check_calls, same, shown

I, J = array_of("int32", 3, 4), array_of("int32", 5, seed=7)
NAN = np.array([2, np.nan, 1, np.nan, -0.0, 0.0], np.float32)
KINDS = [I, NAN, array_of("bool", 4), array_of("complex64", 6), array_of("uint8", 5), np.zeros(0, np.float32)]
FLAGS = {"return_index": True, "return_inverse": True, "return_counts": True}


def narrow(x):
    return (
        tuple(narrow(v) for v in x)
        if isinstance(x, tuple)
        else np.asarray(x).astype("int32")
        if np.asarray(x).dtype == "int64"
        else np.asarray(x)
    )


def agree(name, *args, **kwargs):
    mine = [qnp.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
    got, want = getattr(qnp, name)(*mine, **kwargs), narrow(getattr(np, name)(*args, **kwargs))
    assert not same(tuple(got) if isinstance(want, tuple) else got, want), (
        f"{name}({shown(args)}, {kwargs}): {got} {want}"
    )


@pytest.mark.parametrize("x", KINDS, ids=shown)
def test_unique(x):
    agree("unique", x)
    agree("unique", x, **FLAGS)
    for name in ("unique_all", "unique_counts", "unique_inverse"):
        agree(name, x)
    assert not same(qnp.unique_values(qnp.asarray(x)), np.unique(x, equal_nan=False))


def test_a_nan_part_makes_a_complex_number_nan():
    x = np.array([1 + 1j, complex(np.nan, 1), complex(1, np.nan), 1 + 1j], np.complex64)
    values, *found = qnp.unique(qnp.asarray(x), **FLAGS)
    assert np.isnan(values).tolist() == [False, True] and [v.tolist() for v in found] == [[0, 1], [0, 1, 1, 0], [2, 2]]


def test_unique_slices():
    rows = np.array([[1, 2], [0, 2], [1, 2], [0, 3]], np.int32)
    for axis in (0, 1, -1):
        agree("unique", rows, axis=axis, **FLAGS)
    agree("unique", array_of("float32", 2, 3, 2, high=0) // 2, axis=1)
    agree("unique", NAN, equal_nan=False)


@pytest.mark.parametrize("name", ["union1d", "setdiff1d", "setxor1d", "intersect1d"])
def test_two_sets(name):
    for x, y in (
        (I, J),
        (J, I),
        (NAN, I.astype("float32")),
        (NAN, NAN[::-1]),
        (I, I[:0]),
        (array_of("float32", 40), array_of("float32", 40, seed=1)),
    ):
        agree(name, x, y)
    if name != "union1d":
        agree(name, np.array([5, 3, 9]), np.array([9, 4]), assume_unique=True)
    if name == "intersect1d":
        agree(name, I, J, return_indices=True)
        agree(name, np.array([5, 3, 9]), np.array([9, 4, 5]), assume_unique=True, return_indices=True)


def test_sizes():
    """Few shapes: JAX compiles every one."""
    calls = [call("unique", I, size=n, **FLAGS, **k) for n in (3, 9) for k in ({}, {"fill_value": -7})]
    calls += [call("unique", np.array([[1, 2], [0, 2], [1, 2]], np.int32), size=3, axis=0, fill_value=9, **FLAGS)]
    calls += [
        call("unique", NAN, size=6),
        call("unique", NAN[:0], size=2, fill_value=1),
        call("unique_counts", J, size=6, fill_value=0),
    ]
    calls += [call("union1d", I, J, size=n, fill_value=f) for n, f in ((4, None), (12, None), (12, 5))]
    calls += [call("setdiff1d", I, J, size=n, fill_value=f) for n, f in ((2, None), (8, None), (8, 5))]
    calls += [call("setdiff1d", np.array([5, 3, 9]), np.array([9]), assume_unique=True, size=2)]
    calls += [call("setxor1d", I, J, size=n, fill_value=f) for n, f in ((2, None), (8, 99))]
    calls += [
        call("intersect1d", I, J, size=n, return_indices=True, fill_value=f) for n, f in ((1, None), (8, None), (8, -7))
    ]
    check_calls(calls)


def test_missing_elements_of_an_empty_result():
    assert qnp.intersect1d(qnp.asarray(I), qnp.array([99]), size=2).tolist() == [0, 0]
    assert qnp.setxor1d(qnp.asarray(J), qnp.asarray(J), size=2).tolist() == [0, 0]
    values, first, second = qnp.intersect1d(
        qnp.asarray(J[:0]), qnp.asarray(J), size=1, return_indices=True, fill_value=4
    )
    assert (values.tolist(), first.tolist(), second.tolist()) == ([4], [0], [5])


@pytest.mark.parametrize(
    "name",
    [
        "unique",
        "unique_all",
        "unique_counts",
        "unique_inverse",
        "unique_values",
        "union1d",
        "setdiff1d",
        "setxor1d",
        "intersect1d",
    ],
)
def test_traced_values_need_a_size(name):
    n = 1 if name.startswith("unique") else 2
    with pytest.raises(
        quire.errors.ConcretizationTypeError,
        match=r"quire.numpy.\w+: .*give size=n, the number of elements of the result",
    ):
        quire.make_jaxpr(lambda *xs: getattr(qnp, name)(*xs))(*[qnp.asarray(J)] * n)


def test_derivative():
    """The distinct elements are elements: the gradient of each goes to its first occurrence."""
    g = quire.grad(lambda x: (qnp.unique(x, size=2) * qnp.array([1.0, 10.0])).sum())(qnp.array([3.0, 1.0, 3.0]))
    assert g.tolist() == [10.0, 1.0, 0.0]


def test_errors():
    with pytest.raises(
        ValueError, match="quire.numpy.unique: an empty array has no element to fill with: give fill_value"
    ):
        qnp.unique(qnp.ones(0), size=1)
    for name in ("unique", "setdiff1d", "setxor1d", "intersect1d"):
        with pytest.raises(
            ValueError, match=rf"quire.numpy.{name}: fill_value i32\[2\] must be a scalar, or broadcast to"
        ):
            xs = [qnp.arange(4)] * (1 if name == "unique" else 2)
            getattr(qnp, name)(*xs, size=6, fill_value=qnp.array([1, 2]))
    with pytest.raises(ValueError, match="quire.numpy.unique: axis 1"):
        qnp.unique(qnp.ones(2), axis=1)
    with pytest.raises(TypeError, match="quire.numpy.union1d: .*list"):
        qnp.union1d([1], qnp.ones(2))
    with pytest.raises(TypeError, match="quire.numpy.setdiff1d: size must be an integer"):
        qnp.setdiff1d(qnp.ones(2), qnp.ones(2), size=1.5)
