"""sort and top_k: kernels and StableHLO form against the reference against JAX, over every dtype; their errors."""

from __future__ import annotations

import dataclasses

import jax.lax as jl
import numpy as np
import pytest

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.primitives import sorting as so
from tests.helpers import Case, check, thinned
from tests.primitives.oracles import edge_array, under_jax

GROUPS = [dtypes.ALL[:5], dtypes.ALL[5:9], dtypes.ALL[9:13], dtypes.ALL[13:]]
IDS = ["signed", "unsigned", "float", "complex"]


def sort_case(name, arrays, **params):
    def expect(*xs):
        return list(jl.sort(tuple(xs), **params))

    return Case(name, lambda *xs: so.sort(xs, **params), arrays, under_jax(expect), exact=True)


def sort_cases(dtype, sizes):
    cases = []
    for n in sizes:
        x, y = edge_array(dtype, (2, n), n), edge_array(dtype, (2, n), n + 1)
        few = edge_array(np.int8, (2, n), n + 2) % 3
        places = np.arange(2 * n, dtype=np.int32).reshape(2, n)
        cases += [
            sort_case(f"sort {dtype} {n}", [x]),
            sort_case(f"pairs {dtype} {n}", [x, places], num_keys=1),
            sort_case(f"two keys {dtype} {n}", [few, x, y], num_keys=2),
        ]
    x = edge_array(dtype, (3, 5, 2), 9)
    cases.append(sort_case(f"axis 1 {dtype}", [x, x], dimension=1))
    cases.append(sort_case(f"empty {dtype}", [x[:, :0]], dimension=1))
    return cases


def top_k_cases(dtype, sizes):
    cases = []
    for n in sizes:
        x = edge_array(dtype, (3, n), n)
        for k in sorted({0, 1, min(n, 3), n}):
            f = under_jax(lambda a, k=k: jl.top_k(a, k))
            cases.append(Case(f"top_k {dtype} {n} {k}", lambda a, k=k: so.top_k(a, k), (x,), f, exact=True))
    x = edge_array(dtype, (4, 7, 2), 5)
    cases.append(
        Case(
            f"top_k axis {dtype}",
            lambda a: so.top_k(a, 3, 1),
            (x,),
            under_jax(lambda a: jl.top_k(a, 3, axis=1)),
            exact=True,
        )
    )
    return cases


@pytest.mark.parametrize("group", GROUPS, ids=IDS)
def test_sort_is_jax_s(group, x64):
    check(thinned([c for d in group for c in sort_cases(d, (7, 70))], 3))


@pytest.mark.parametrize("group", GROUPS[:3], ids=IDS[:3])
def test_top_k_is_jax_s(group, x64):
    check(thinned([c for d in group for c in top_k_cases(d, (1, 70))], 3))


@pytest.fixture
def without_kernels(monkeypatch):
    """The CPU as a target that has no kernels: everything takes its StableHLO form."""
    from quire.backends import targets

    monkeypatch.setitem(targets.TARGETS, "cpu", dataclasses.replace(targets.TARGETS["cpu"], kernels=False))


def test_the_stablehlo_form_sorts_alike(without_kernels, x64):
    cases = []
    for d in (dtypes.bool_, dtypes.uint8, dtypes.int64, dtypes.bfloat16, dtypes.float32, dtypes.complex64):
        cases.append(sort_cases(d, (5,))[2])
        cases += [] if dtypes.is_complex(d) else top_k_cases(d, (5,))[2:3]
    x = edge_array(np.float32, (2, 1000), 1)
    cases.append(sort_case("1000", [x]))
    cases.append(Case("top 1000", lambda a: so.top_k(a, 10), (x,), under_jax(lambda a: jl.top_k(a, 10))))
    check(cases)


def test_denormals_are_ordered():
    x = np.array([3e-45, -1e-45, 1e-45, 0, -3e-45, 1e-38], np.float32)
    check(
        [
            Case("sort", lambda a: so.sort([a]), (x,), np.sort),
            Case("top", lambda a: so.top_k(a, 6)[0], (x,), lambda a: np.sort(a)[::-1]),
        ]
    )


def test_nan_of_either_sign():
    x = np.array([1, np.nan, -np.nan, np.inf, -np.inf, -np.nan, np.nan], np.float32)
    check(
        [
            Case("top_k", lambda a: so.top_k(a, 7), (x,), under_jax(lambda a: jl.top_k(a, 7))),
            sort_case("sort", [x, np.arange(7, dtype=np.int32)], num_keys=1),
        ]
    )


def test_argsort_keeps_the_order_of_equal_elements():
    x = np.array([[2, 1, 2, 1], [0, 0, 0, 0]], np.int32)
    check([Case("argsort", so.argsort, (x,), lambda a: np.argsort(a, kind="stable").astype(np.int32))])


F32 = ShapedArray((2, 3), dtypes.float32)


@pytest.mark.parametrize(
    ("infer", "error", "text"),
    [
        (
            lambda: so.sort_p.type_rule(dimension=0, is_stable=True, num_keys=1),
            TypeError,
            "sort: expected at least one operand",
        ),
        (
            lambda: so.sort_p.type_rule(F32, ShapedArray((2,), dtypes.int32), dimension=0, is_stable=True, num_keys=1),
            TypeError,
            "sort: the operands must have one shape, got f32[2,3], i32[2]",
        ),
        (
            lambda: so.sort_p.type_rule(F32, dimension=0, is_stable=True, num_keys=2),
            ValueError,
            "sort: num_keys must be within [1, 1], the number of operands, got 2",
        ),
        (
            lambda: so.top_k_p.type_rule(F32, k=4, axis=1),
            ValueError,
            "top_k: k must be within [0, 3], the size of dimension 1 of f32[2,3], got 4",
        ),
        (
            lambda: so.top_k_p.type_rule(ShapedArray((3,), dtypes.complex64), k=1, axis=0),
            TypeError,
            "top_k: operand c64[3] has dtype complex64, expected a bool, integer or float dtype",
        ),
    ],
)
def test_errors_tell_what_was_given_and_expected(infer, error, text):
    with pytest.raises(error) as caught:
        infer()
    assert text in str(caught.value)
