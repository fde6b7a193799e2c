"""Sorting and searching in quire.numpy against jax.numpy."""

from __future__ import annotations

import numpy as np
import pytest

import quire.numpy as qnp

from .numpy_cases import KINDS, array_of, call, check_calls, run, shown, to_quire

NAN = np.array([2.0, np.nan, -np.inf, 0.0, -0.0, np.inf, np.nan, -1.0], np.float32)


@pytest.mark.parametrize("dtype", KINDS)
def test_sort_and_argsort(dtype):
    x, v = array_of(dtype, 2, 3, 4), array_of(dtype, 9)
    calls = [call(n, x, axis=a) for n in ("sort", "argsort") for a in (-1, 0, 1, None)]
    calls += [call(n, v, **k) for n in ("sort", "argsort") for k in ({}, {"descending": True}, {"stable": True})]
    calls += [call(n, np.zeros((0, 3), dtype), axis=a) for n in ("sort", "argsort") for a in (0, 1)]
    calls += [call("argsort", v, descending=True, stable=True), call("sort", v, kind="stable"), call("sort_complex", v)]
    calls += [call("lexsort", (v, v[::-1].copy())), call("lexsort", x), call("lexsort", (x, x[::-1].copy()), axis=0)]
    calls += [call("lexsort", [v])]
    check_calls(calls)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "float32"])
def test_partition(dtype):
    """Elements around the k-th may have any order: compared as sets, and with what `numpy.partition` promises."""
    x = array_of(dtype, 3, 7)
    for kth in (0, 2, -1, 6):
        for axis in (0, 1, -1):
            if kth == 6 and axis == 0:
                continue
            got = np.asarray(qnp.partition(qnp.asarray(x), kth, axis=axis))
            want = np.sort(x, axis=axis)
            assert got.dtype == x.dtype
            np.testing.assert_array_equal(np.sort(got, axis=axis), want)
            np.testing.assert_array_equal(np.take(got, kth, axis), np.take(want, kth, axis))
            chosen = np.take_along_axis(x, np.asarray(qnp.argpartition(qnp.asarray(x), kth, axis=axis)), axis)
            np.testing.assert_array_equal(np.take(chosen, kth, axis), np.take(want, kth, axis))
            np.testing.assert_array_equal(np.sort(chosen, axis=axis), want)
            n = kth % x.shape[axis]
            left = np.take(got, range(n), axis)
            assert (left <= np.take(want, [kth], axis)).all()


def test_nan_comes_last():
    calls = [call(n, NAN, **k) for n in ("sort", "argsort") for k in ({}, {"descending": True})]
    calls += [call("searchsorted", np.sort(NAN), NAN)]
    calls += [call("searchsorted", np.sort(NAN), NAN, side="right")]
    check_calls(calls)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "float16", "float32"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(dtype, side):
    x, v = np.sort(array_of(dtype, 20)), array_of(dtype, 2, 3)
    order = np.argsort(array_of(dtype, 20), kind="stable").astype(np.int32)
    calls = [call("searchsorted", x, y, side=side) for y in (v, v[0, 0], 1, np.zeros(0, dtype), v.astype("float32"))]
    calls += [call("searchsorted", x, v, side=side, method=m) for m in ("scan", "sort", "compare_all", "scan_unrolled")]
    calls += [call("searchsorted", array_of(dtype, 20), v, side=side, sorter=order)]
    calls += [call("searchsorted", np.zeros(0, dtype), v, side=side), call("searchsorted", x, 2.5, side=side)]
    check_calls(calls)


V, X = array_of("float32", 5), array_of("float32", 2, 3)
ERRORS = [
    (call("sort", V, kind="stable"), TypeError, "quire.numpy.sort: the argument kind is not supported, give stable"),
    (call("argsort", V, order="f"), TypeError, "quire.numpy.argsort: the argument order is not supported"),
    (call("sort", [3, 1]), TypeError, "quire.numpy.sort: .*list"),
    (call("sort", X, axis=2), ValueError, "quire.numpy.sort: axis 2 is out of bounds"),
    (call("argsort", X, axis=-3), ValueError, "quire.numpy.argsort: axis -3"),
    (call("sort", V, order="a"), (ValueError, TypeError, NotImplementedError), "quire.numpy.sort: .*order"),
    (call("searchsorted", X, V), ValueError, "quire.numpy.searchsorted: .*1-dim"),
    (call("searchsorted", V, V, side="middle"), ValueError, "quire.numpy.searchsorted: .*middle"),
    (call("searchsorted", V, V, method="no"), ValueError, "quire.numpy.searchsorted: .*no"),
    (call("partition", V, 7), ValueError, "quire.numpy.partition: .*7"),
    (call("argpartition", V, -9), ValueError, "quire.numpy.argpartition: .*-9"),
    (
        call("partition", V.astype(np.complex64), 1),
        (TypeError, NotImplementedError),
        "quire.numpy.partition: .*complex",
    ),
    (call("lexsort", ()), (TypeError, ValueError), "quire.numpy.lexsort: "),
]


@pytest.mark.parametrize("case", ERRORS, ids=lambda c: f"{c[0][0]}{shown(c[0][1])}")
def test_errors(case):
    (name, args, kwargs), kind, text = case
    with pytest.raises(kind, match=text):
        getattr(qnp, name)(*args, **kwargs)


def test_sort_of_a_large_array_is_stable():
    x = array_of("int32", 3000)
    np.testing.assert_array_equal(run(qnp.argsort, [to_quire(x)], {}), np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(qnp.sort(to_quire(x)), np.sort(x))
