"""Reductions, cumulative functions, predicates and the NaN functions of quire.numpy against jax.numpy."""

from __future__ import annotations

import numpy as np
import pytest

import quire.numpy as qnp

from .numpy_cases import KINDS, array_of, call, check_calls, shown

NAN = np.array([[1.5, np.nan, -2.0], [np.nan, np.nan, np.nan], [0.5, 3.0, np.nan]], np.float32)
PLACES = [{}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": (0, 2)}, {"axis": (-1, 1), "keepdims": True}]


@pytest.mark.parametrize("dtype", KINDS)
def test_totals(dtype):
    x = array_of(dtype, 2, 3, 4)
    names = ["sum", "prod", "all", "any", "count_nonzero", "mean", "max", "min", "std", "var"]
    calls = [call(name, x, **place) for name in names for place in PLACES[:5]]
    calls += [call(name, array_of(dtype), **k) for name in names for k in ({}, {"keepdims": True})]
    if dtype == "complex64":  # JAX takes the real part of complex numbers for their truth
        calls = [c for c in calls if c[0] not in ("all", "any")]
        for axis in (None, 0, (0, 2)):
            np.testing.assert_array_equal(qnp.all(qnp.asarray(x), axis=axis), np.all(x, axis=axis))
            np.testing.assert_array_equal(qnp.any(qnp.asarray(x * 1j), axis=axis), np.any(x, axis=axis))
    calls += [call("ptp", x, axis=1), call("amax", x, 2), call("amin", x, (0, 1))]
    # JAX's float16 sums are rounded at other places.
    check_calls(calls, rtol=1e-2 if dtype == "float16" else None, atol=1e-2 if dtype == "float16" else 1e-5)


def test_empty_arrays():
    flat, wide = np.zeros(0, np.float32), np.zeros((2, 0, 3), np.float32)
    calls = [call(name, flat) for name in ("sum", "prod", "all", "any", "mean", "var", "max", "min", "argmax")]
    calls += [call(name, wide, axis=1) for name in ("sum", "prod", "all", "mean", "max", "argmin", "cumsum")]
    calls += [call(name, wide, axis=0) for name in ("sum", "max", "argmax", "cumsum", "cumprod", "min")]
    calls += [call("max", flat, initial=1.0), call("min", wide, axis=1, initial=2), call("sum", flat, initial=3)]
    calls += [call("sum", np.zeros(0, bool)), call("prod", np.zeros(0, np.int8)), call("nansum", flat)]
    check_calls(calls)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float32", "complex64"])
def test_where_and_initial(dtype):
    x, mask, row = array_of(dtype, 2, 3), array_of("bool", 2, 3, seed=1), np.array([True, False, True])
    one = {"bool": True, "complex64": 1j}.get(dtype, 1)
    calls = [call(n, x, axis=a, where=m) for n in ("sum", "prod", "all", "any") for a in (None, 1) for m in (mask, row)]
    calls += [call(n, x, where=mask, initial=one) for n in ("sum", "prod", "max", "min")]
    calls += [call(n, x, axis=0, where=row, initial=one, keepdims=True) for n in ("sum", "prod", "max", "min")]
    calls += [call(n, x, axis=1, where=row) for n in ("mean", "var", "std")]
    calls += [call(n, x, where=mask) for n in ("max", "min")]
    if dtype == "complex64":
        calls = [c for c in calls if c[0] not in ("all", "any")]
    check_calls(calls, atol=1e-5)


def test_dtype_argument_and_widening():
    calls = [
        call(n, array_of(d, 4), dtype=t)
        for n in ("sum", "prod", "cumsum", "cumprod")
        for d in ("bool", "int8", "uint8", "float16", "float32")
        for t in (None, "int8", "int32", "float32", "complex64", "bool")
    ]
    calls += [call("mean", array_of("int8", 4), dtype=t) for t in (None, "float16", "float32", "int32")]
    calls += [call("var", array_of("float32", 4), ddof=1), call("std", array_of("int32", 3, 4), axis=0, ddof=1)]
    calls += [call("var", array_of("float32", 4), correction=1), call("var", array_of("float16", 4), dtype="float32")]
    calls += [call("sum", array_of("int8", 4), promote_integers=False), call("sum", 3), call("mean", 2.5)]
    calls += [call("prod", array_of("uint8", 4), promote_integers=False), call("max", 3), call("all", True)]
    check_calls(calls, rtol=1e-2)


@pytest.mark.parametrize("dtype", KINDS)
def test_cumulative_and_arg_reductions(dtype):
    x = array_of(dtype, 2, 3, 4)
    calls = [call(n, x, **k) for n in ("cumsum", "cumprod") for k in ({}, {"axis": 0}, {"axis": -1}, {"axis": 1})]
    calls += [call(n, array_of(dtype)) for n in ("cumsum", "cumprod")]
    # Narrow integers are widened in products as in sums (NumPy's rule); JAX widens in sums alone.
    both = ("cumulative_sum",) if dtype in ("int8", "uint8") else ("cumulative_sum", "cumulative_prod")
    calls += [call(n, x, axis=1) for n in both]
    calls += [call(n, x, axis=-1, include_initial=True) for n in both]
    calls += [call("cumulative_sum", array_of(dtype, 3), dtype="float32")]
    if dtype != "complex64":
        places = [{}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"keepdims": True}, {"axis": -2}]
        calls += [call(n, x, **k) for n in ("argmax", "argmin", "nanargmax", "nanargmin") for k in places]
        calls += [call("argmax", array_of(dtype))]
    check_calls(calls, rtol=1e-2 if dtype == "float16" else None)


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
def test_nan_functions(dtype):
    x = NAN.astype(dtype)
    if dtype == "complex64":
        x = x + 1j
    totals = ["nansum", "nanprod", "nanmean", "nanvar", "nanstd"]
    extrema = ["nanmax", "nanmin"] if dtype != "complex64" else []
    calls = [call(n, x, **k) for n in totals + extrema for k in ({}, {"axis": 0}, {"axis": -1, "keepdims": True})]
    calls += [call(n, x, axis=1, where=np.array([True, False, True])) for n in totals]
    calls += [call(n, x, axis=1, initial=2.0) for n in ("nansum", "nanprod", *extrema)]
    calls += [call(n, x, axis=a) for n in ("nancumsum", "nancumprod") for a in (None, 0, 1)]
    calls += [call(n, array_of("int32", 2, 3), axis=0) for n in totals + ["nanmax", "nancumsum"]]
    calls += [call("nanvar", x, ddof=1, axis=0), call("nansum", x, dtype="complex64")]
    if extrema:
        calls += [call(n, x, **k) for n in ("nanargmax", "nanargmin") for k in ({}, {"axis": 0}, {"axis": 1})]
        calls += [call("max", x, axis=0), call("argmax", x, axis=1), call("min", x, axis=1), call("argmin", x)]
    check_calls(calls, rtol=1e-2 if dtype == "float16" else None, atol=1e-5)


@pytest.mark.parametrize("dtype", KINDS)
def test_predicates(dtype):
    x, y = array_of(dtype, 2, 3), array_of(dtype, 3, seed=3)
    calls = [call(n, x) for n in ("isfinite", "isinf", "isreal", "iscomplex", "nan_to_num", "isneginf", "isposinf")]
    calls += [call(n, x, y) for n in ("isclose", "allclose", "array_equal", "array_equiv", "isin")]
    calls += [call(n, x, x) for n in ("isclose", "allclose", "array_equal", "array_equiv")]
    calls += [
        call("isin", x, y, invert=True),
        call("isin", x, np.zeros(0, dtype)),
        call("isin", x, array_of(dtype, 40)),
    ]
    calls += [call("array_equiv", x, x[:1]), call("array_equal", x, x[:1]), call("isclose", x, 0), call("isin", x, 1)]
    check_calls(calls)


def test_predicates_of_nan_and_infinities():
    x = np.array([np.nan, np.inf, -np.inf, 1.0, 0.0], np.float32)
    y = np.array([np.nan, np.inf, np.inf, 1.0 + 1e-6, 1e-9], np.float32)
    calls = [call(n, x, y, equal_nan=e) for n in ("isclose", "allclose", "array_equal") for e in (True, False)]
    calls += [call("array_equal", x, x, equal_nan=e) for e in (True, False)]
    calls += [call("nan_to_num", x, **k) for k in ({}, {"nan": 7, "posinf": 3.5}, {"neginf": -1})]
    calls += [call("nan_to_num", x.astype(d)) for d in ("float16", "complex64")]
    calls += [call("isclose", x, y, rtol=0.1, atol=0.1), call("isclose", 3, 4), call("isclose", x, 1)]
    check_calls(calls)


ERRORS = [
    (call("mean", np.ones(3), dtype=bool), TypeError, "quire.numpy.mean: dtype must be of numbers, got bool"),
    (
        call("spacing", np.ones(3) * 1j),
        ValueError,
        r"quire.numpy.spacing: complex numbers have no spacing, got c64\[3\]",
    ),
    (call("sum", [1, 2]), TypeError, "quire.numpy.sum: .*list"),
    (call("sum", np.ones(3), axis=1), ValueError, "quire.numpy.sum: axis 1 is out of bounds"),
    (call("sum", np.ones((3, 2)), axis=(0, 0)), ValueError, "quire.numpy.sum: .*(duplicate|repeat|twice)"),
    (call("sum", np.ones(3), out=np.ones(())), NotImplementedError, "quire.numpy.sum: .*out"),
    (call("max", np.ones(0)), ValueError, "quire.numpy.max: "),
    (call("min", np.ones((2, 0)), axis=1), ValueError, "quire.numpy.min: "),
    (call("argmax", np.ones(0)), ValueError, "quire.numpy.argmax: .*empty"),
    (call("argmin", np.ones(3), axis=2), ValueError, "quire.numpy.argmin: axis 2"),
    (call("max", np.ones(3), where=np.array([True, False, True])), ValueError, "quire.numpy.max: .*initial"),
    (call("cumsum", np.ones(3), axis=1), ValueError, "quire.numpy.cumsum: axis 1"),
    (call("cumulative_sum", np.ones((2, 2))), ValueError, "quire.numpy.cumulative_sum: axis must be given"),
    (call("cumulative_prod", np.float32(3)), ValueError, "quire.numpy.cumulative_prod: .*1-dimensional"),
    (call("mean", "abc"), TypeError, "quire.numpy.mean: .*str"),
    (call("nansum", [1.0]), TypeError, "quire.numpy.nansum: .*list"),
    (call("isneginf", np.ones(2, np.complex64)), (TypeError, ValueError), "quire.numpy.isneginf: .*complex"),
    (call("isclose", np.ones(2), np.ones(3)), (TypeError, ValueError), "quire.numpy.isclose: .*(2|3)"),
]


@pytest.mark.parametrize("case", ERRORS, ids=lambda c: f"{c[0][0]}{shown(c[0][1])}")
def test_errors(case):
    (name, args, kwargs), kind, text = case
    with pytest.raises(kind, match=text):
        getattr(qnp, name)(*args, **kwargs)
