"""Compositions with operations that IREE 3.13 gets wrong or refuses: what quire compiles them to is right.

Many in one module. `test_iree_faults_ops.py` has the smallest module of each fault, as IREE compiles it alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.ir import dtypes
from quire.ir.config import config

from ..helpers import Case, array, check, leaves

HALF = [dtypes.float16, dtypes.bfloat16]
NARROW = [*HALF, dtypes.float32, dtypes.int8, dtypes.complex64]


# -- what is put into constants -----------------------------------------------------------------------------------------


def test_several_results_are_put_into_equal_constants():
    """They have a reduction in common, so that IREE computes them in one dispatch."""
    m, p, q = np.linspace(0.5, 2, 8, dtype=np.float32).reshape(2, 4), np.float32(2), np.float32(3)

    def each(put: Any) -> Any:
        def f(m: Any, p: Any, q: Any) -> Any:
            n = qnp.sum(m)
            return [put(p / n * m), put(q / n * m), put(p * q / n * m) + 1]

        return f

    zero = np.zeros((), np.float32)
    check([
        Case("pad", each(lambda x: lax.pad(x, zero, ((1, 0, 0), (0, 2, 0)))), [m, p, q]),
        Case("pad within", each(lambda x: lax.pad(x, zero, ((1, 0, 1), (0, 2, 1)))), [m, p, q]),
        Case("pad with an argument", lambda m, p, q: each(lambda x: lax.pad(x, p, ((1, 0, 0), (0, 2, 0))))(m, p, q), [m, p, q]),
        Case("update", each(lambda x: lax.dynamic_update_slice(qnp.zeros((3, 6)), x, (1, 0))), [m, p, q]),
        Case("updates at indices", each(lambda x: qnp.ones((3, 6)).at[1:, :4].set(x)), [m, p, q]),
        Case("rows", each(lambda x: qnp.zeros((3, 6)).at[np.array([0, 2])].set(qnp.pad(x, ((0, 0), (0, 2))))), [m, p, q]),
        Case("concatenation", each(lambda x: qnp.concatenate([qnp.zeros((1, 4)), x])), [m, p, q]),
    ])  # fmt: skip


@pytest.mark.parametrize("dtype", ["f8", "i8", "c16", "f4"])
def test_constants_beside_what_is_computed(dtype):
    """IREE fills elements of 8 bytes by a kernel, which is given the part of the array that it fills."""
    x = np.arange(3).astype(dtype)

    def parts(x: Any) -> Any:
        y = x * 2
        return [
            qnp.concatenate([y, qnp.ones(1, dtype)]), qnp.concatenate([qnp.full(5, 3, dtype), y]),
            qnp.concatenate([qnp.full(2, 3, dtype), y, qnp.full(2, 4, dtype), y]), qnp.pad(y, (2, 1), constant_values=7),
            qnp.zeros(9, dtype).at[2:5].set(y).at[6:8].set(1), y.at[1:].set(5), y.at[:1].set(6),
            qnp.linspace(0, 1, 5).astype(dtype),
        ]  # fmt: skip

    def loop(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, c: qnp.concatenate([c[1:] * 2, qnp.ones(1, dtype)]), x)

    with config.override(enable_x64=True):
        check([Case("parts", parts, [x]), Case("loop", leaves(loop), [x])])


def test_products_of_what_was_converted_from_unsigned():
    """IREE folds conversions into a product, all of them, and takes what they were of for signed."""

    def product(between: tuple[str, ...], wanted: str) -> Any:
        def f(x: Any) -> Any:
            for dtype in between:
                x = lax.convert_element_type(x, dtype)
            return [lax.dot(x, (x.T + 1).astype(x.dtype), preferred_element_type=wanted), lax.dot(x, x.T)]

        return f

    sources = (np.full((5, 5), 255, np.uint8), np.full((5, 5), 65000, np.uint16), np.eye(5, dtype=np.bool_))
    ways = (("int16",), ("int32",), ("int8", "int16"), ("uint16", "int32"), ("int16", "int32"))
    check([
        Case(f"{x.dtype} {between} {wanted}", product(between, wanted), [x])
        for x in sources for between in ways for wanted in ("float32", "int32")
    ])  # fmt: skip


def test_sums_of_products_with_rows_and_positions():
    """Over several dimensions at once IREE makes one contraction of them, which it cannot translate."""
    w, v = array(np.float32, 12), array(np.float32, 3)
    check([
        Case("rows", lambda v: [qnp.sum(qnp.tile(v, (2, 1)) * w[:6].reshape(2, 3)), v * v], [v]),
        Case("tiled", lambda v: [qnp.sum(qnp.tile(v, 4).reshape(4, 3) * w.reshape(4, 3))], [v]),
        Case("positions", lambda v: [qnp.sum(qnp.tri(6, 2, dtype="float32") * w.reshape(6, 2)) + v], [v]),
        Case("numbers", lambda v: [qnp.sum(lax.broadcasted_iota("float32", (6, 2), 1) * w.reshape(6, 2)) + v], [v]),
        Case("branches", rows_of_branches, [np.ones((8, 8), np.float32), np.bool_(True)]),
    ])  # fmt: skip


def rows_of_branches(x, p):
    """Both branches give the same rows."""
    rows = qnp.broadcast_to(x[None], (8, 8, 8))
    y = lax.cond(p, lambda y: (rows, y), lambda y: (rows, qnp.fft.fft(y).real), x)
    return [qnp.sum(y[0] * np.cos(np.arange(512, dtype="float32")).reshape(8, 8, 8)), y[1]]


def test_parts_of_complex_products_that_others_read():
    """IREE takes one of a dispatch's results for another where two pairs of them are equal."""
    rng = np.random.default_rng(0)
    a = (rng.standard_normal(3) + 1j * rng.standard_normal(3)).astype(np.complex64)

    def f(a):
        b = a * (qnp.mean(a, keepdims=True) + 1)
        c = qnp.tile(0.1 * b + qnp.sum(b, keepdims=True) * 0.5, (2, 1))
        return b, c, c @ b

    def with_cotangents(a):
        y, pull = quire.vjp(f, a)
        return [*y, *pull(tuple(0.5 - 0.25 * v for v in y))]

    check([Case("tiled", with_cotangents, [a], rtol=1e-4, atol=1e-5)])


def test_one_element_that_gets_dimensions():
    """IREE makes one slice of more dimensions than what it is cut from, where others read it too."""

    def f(expand: Any) -> Any:
        def g(x: Any) -> Any:
            y = expand(x)
            return [y, qnp.sum(0.5 - 0.25 * y, 0)]

        return g

    x = np.arange(1, 6, dtype=np.float32)
    check([
        Case("new axis", f(lambda x: x[:1][None]), [x]),
        Case("reshape", f(lambda x: x[2:3].reshape(1, 1, 1)), [x]),
        Case("split", f(lambda x: qnp.split(x, [1])[0][:, None]), [x]),
        Case("rows", f(lambda x: x.reshape(5, 1)[1:2][None]), [x]),
        Case("at", f(lambda x: lax.expand_dims(lax.slice(x, (4,), (5,)), (0, 2))), [x]),
    ])  # fmt: skip


@pytest.mark.parametrize("cut", [
    lambda x, i: x[2:3, 1:2],
    lambda x, i: lax.dynamic_slice(x, (i, i), (1, 1)),
    lambda x, i: x[i, 1],
    lambda x, i: lax.dynamic_index_in_dim(x, i, 0)[:, 1:2],
    lambda x, i: x[qnp.array([2]), qnp.array([1])],
], ids=["slice", "dynamic", "index", "row", "gather"])  # fmt: skip
def test_one_element_that_is_cut_out_computed_with_and_given_dimensions(cut):
    middles = (lambda y: y, lambda y: -y.T, lambda y: y * y + y, lambda y: -qnp.sum(y))
    ends = (lambda y: y.reshape(1, 1, 1), lambda y: y.reshape(1, 1, 1, 1), lambda y: y[None, ..., None])
    uses = (lambda b: (b, -b), lambda b: (qnp.sum(b, 0), b), lambda b: (qnp.broadcast_to(b, (3, *b.shape)) + 1, b))

    def f(x: Any, i: Any) -> list[Any]:
        parts = [cut(y, i) for y in (x, x * 2)]
        made = [end(middle(y)) for y in parts for middle in middles for end in ends]
        return [value for b in made for use in uses for value in use(b)]

    check([Case("all", f, [np.arange(12, dtype=np.float32).reshape(4, 3), np.int32(1)])])


def test_products_over_one_element():
    check([
        Case(str(d), lambda x: [x @ x, x[:, None] @ x[None], qnp.vdot(x, x)], [np.full(1, 1.5, d)])
        for d in (*HALF, np.float32, np.complex64)
    ])  # fmt: skip


# -- bools add as "or" -------------------------------------------------------------------------------------------------


def test_bools_add_as_or_and_multiply_as_and():
    a, b = np.array([True, False, True, True]), np.array([True, True, False, True])
    m = np.array([[True, False, True], [True, True, True]])

    def arithmetic(a: Any, b: Any) -> list[Any]:
        return [
            a + b,
            a * b,
            a + b + a + b,
            a + b + 1,
            qnp.sum(a + b),
            qnp.where(a + b, a * b, b + b),
            qnp.add(a, b)[::2],
        ]

    def contractions(m: Any) -> list[Any]:
        return [m @ m.T, m.T @ m, qnp.einsum("ij,kj->ik", m, m), quire.vmap(lambda v: v + m[0])(m)]

    def reductions(m: Any) -> list[Any]:
        return [
            qnp.sum(m, dtype=bool), qnp.prod(m, 0, dtype=bool), lax.cummax(m.astype("int8"), axis=1), qnp.max(m, 1),
            qnp.cumsum(m, dtype=bool), qnp.sum(m, 0), qnp.prod(m, 1), lax.reduce_or(m + m, (0,)),
        ]  # fmt: skip

    def gradient(x: Any, a: Any, b: Any) -> Any:
        return quire.grad(lambda x: qnp.sum(x * (a + b)))(x)

    def loop(m: Any) -> Any:
        return lax.scan(lambda c, r: (c + r, c * r), m[0], m)

    check([
        Case("arithmetic", leaves(arithmetic), [a, b]),
        Case("contractions", leaves(contractions), [m]),
        Case("reductions", leaves(reductions), [m]),
        Case("gradient", leaves(gradient), [np.ones(4, np.float32), a, b]),
        Case("loop", leaves(loop), [m]),
    ])  # fmt: skip
    np.testing.assert_array_equal(quire.jit(lambda a, b: a + b)(a, b), a | b)


# -- sums of equal elements --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int64", "int8", "float32", "bfloat16"])
def test_sums_of_what_is_taken_of_equal_elements(dtype):
    """IREE knows the elements through gathers, sorts, and pads of nothing."""
    i = np.array([0, 1, 1])

    def f(i: Any) -> Any:
        ones, empty = qnp.ones((4, 4, 4), dtype), qnp.zeros((0, 2), dtype)
        return [
            qnp.trace(ones), qnp.sum(qnp.take(ones, i, 0), 0), qnp.sum(qnp.sort(ones, 0), 0),
            qnp.sum(qnp.pad(empty, ((1, 2), (0, 0)), constant_values=3), 0), qnp.prod(qnp.take(ones[0] * 2, i, 0), 0),
            qnp.sum(qnp.square(qnp.pad(empty, ((0, 3), (0, 0))) + 1)), qnp.sum(qnp.concatenate([empty, ones[0, :3, :2]]), 0),
        ]  # fmt: skip

    with config.override(enable_x64=True):
        check([Case("taken", f, [i])])


@pytest.mark.parametrize("mode", ["fill", "clip", "promise_in_bounds"])
def test_sums_of_one_element_that_is_taken_again_and_again(mode):
    """Seed 86108005 of the fuzz: of a constant array it is one number to IREE, which the sum took once."""
    x, m = np.arange(6, dtype=np.float32), np.arange(12, dtype=np.float32).reshape(6, 2)

    def f(b: Any) -> Any:
        def taken(x: Any, i: Any) -> Any:
            return qnp.asarray(x).at[np.array(i)].get(mode=mode)

        return [
            qnp.sum(taken(x, [3, 3])) + b, qnp.prod(taken(x, [-3, 3, 3])) * b, qnp.sum(taken(m, [2, 2]), 0) + b,
            qnp.sum(taken(x * b, [4, 4])), qnp.sum(taken(x, [[1, 1], [1, 1]]), 1) * b, qnp.mean(taken(x, [5, 5])) - b,
            quire.grad(lambda b: qnp.sum(qnp.zeros(6).at[np.array([-3, 3])].add(b) * x))(b),
            quire.grad(lambda b: qnp.sum(qnp.stack([b] * 6).at[np.array([2, 2, 2])].get(mode=mode) * x[:3]))(b),
        ]  # fmt: skip

    check([Case(mode, f, [np.float32(2)])])


FORGETTING: dict[str, Any] = {
    "itself": lambda c: qnp.sum(c == c, -1, keepdims=True),
    "not another": lambda c: qnp.sum(~(c != c), 1),
    "at least the least": lambda c: qnp.sum(c >= qnp.zeros((), c.dtype), 0),
    "or the largest": lambda c: qnp.sum(qnp.maximum(c, qnp.ones((), c.dtype) if c.dtype == bool else 255), 1),
    "neither and both": lambda c: qnp.sum(((c != c) & (c == c)) == False, 1),  # noqa: E712
    "one of two equal": lambda c: qnp.prod(qnp.where(c > 0, 2, 2), 1),
    "itself divided": lambda c: qnp.sum((c.astype("int32") + 7) // (c.astype("int32") + 7), 0),
}


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32"])
def test_sums_of_what_forgets_its_operands(dtype):
    """Seed 45013412 of the fuzz: ``sum(c == c)`` of bools was 1 for each row."""
    c = (np.arange(12).reshape(4, 3) % 5).astype(dtype)
    for f in FORGETTING.values():
        np.testing.assert_array_equal(np.asarray(quire.compile(f)(c)), np.asarray(f(qnp.asarray(c))))


def test_sums_of_equal_elements_that_branches_and_loops_give():
    """Seed 7001158 of the fuzz: both branches give the same array of equal elements, and IREE takes the branch away."""

    def same(k: Any, n: Any, equal: Any) -> Any:
        return lax.cond(k, lambda x: x, lambda x: equal, equal)

    def alike(k: Any, n: Any, equal: Any) -> Any:
        return lax.switch(n, [lambda: equal * 2, lambda: qnp.ones(equal.shape), lambda: equal + 0.5])

    def kept(k: Any, n: Any, equal: Any) -> Any:
        turn = (0, equal, qnp.arange(300.0))
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1], qnp.sort(c[2])), turn)[1]

    # One by one: as functions of a module of cases, branches are taken away later.
    for given, equal in ((same, 0.8), (alike, 1.0), (kept, 0.8)):
        for reduce, want in ((qnp.prod, np.prod), (qnp.sum, np.sum)):
            for shape in ((2, 1, 1), (3, 4)):
                f = quire.jit(lambda k, n: reduce(qnp.clip(given(k, n, qnp.full(shape, 0.5)), 0.8, 1.2)))  # noqa: B023
                np.testing.assert_allclose(f(np.bool_(True), np.int32(1)), want(np.full(shape, equal)), rtol=1e-6)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_sums_of_equal_elements_count_each(dtype):
    one = np.ones((), dtype)[()]

    def constants() -> Any:
        ones = qnp.full((7, 3), 1, dtype)
        return [
            qnp.sum(qnp.full(7, 1, dtype)), qnp.sum(ones, 0), qnp.sum(ones, 1), qnp.prod(qnp.full(5, 2, dtype)),
            qnp.sum(qnp.full(9, -2, dtype) * qnp.full(9, 3, dtype)), qnp.sum(-ones), qnp.sum(ones[2:5], 1), ones @ ones.T,
            qnp.sum(qnp.concatenate([ones, ones + ones]), 0), qnp.cumsum(ones, 1), qnp.sum(ones.reshape(3, 7), 1),
            lax.reduce(ones, one * 0, lax.add, (1,)), lax.reduce_window(ones, one * 0, lax.add, (3, 2), (1, 1), "VALID"),
            lax.reduce_window(qnp.full(7, 2, dtype), one, lax.mul, (3,), (2,), "VALID"),
            qnp.sum(qnp.pad(ones, 1, constant_values=1), 1),
        ]  # fmt: skip

    def values(x: Any) -> Any:
        wide = qnp.broadcast_to(x, (7, 3))
        return [
            qnp.sum(wide), qnp.sum(wide, 0), qnp.sum(wide, 1), qnp.prod(qnp.full(5, x)), qnp.full((3, 7), x) @ wide,
            lax.reduce_window(wide, one * 0, lax.add, (3, 2), (1, 1), "SAME"),
            quire.vmap(lambda s: qnp.sum(qnp.full((7, 3), s), 1))(wide[0]), lax.map(lambda s: qnp.sum(qnp.full(7, s)), wide[0]),
        ]  # fmt: skip

    check([Case("constants", leaves(constants), []), Case("values", leaves(values), [np.array(2, dtype)])])


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_the_gradient_of_a_scalar_bias_counts_the_batch(dtype):
    w, b, x = np.ones((4, 3), dtype), np.array(0.5, dtype), np.ones((7, 4), dtype)

    def gradients(w: Any, b: Any, x: Any) -> Any:
        def of(f: Any) -> Any:
            return quire.grad(f)(b)

        return [
            of(lambda b: qnp.sum(x @ w + b)), of(lambda b: qnp.mean(x @ w + b)),
            of(lambda b: qnp.sum(qnp.broadcast_to(b, (7, 3)))), of(lambda b: qnp.sum((x + b).astype("float32"))),
            quire.vmap(quire.grad(lambda b: qnp.sum(x @ w + b)))(qnp.stack([b, b])),
            quire.grad(lambda b: qnp.sum(x @ w + b))(qnp.stack([b, b, b])),
        ]  # fmt: skip

    case = Case("gradients", leaves(gradients), [w, b, x])
    check([case])
    assert float(quire.jit(gradients)(w, b, x)[0]) == 21.0


def test_complex_initial_values_of_two_reductions_are_apart():
    f = quire.jit(lambda: [qnp.sum(qnp.full(7, 1, "complex64")), qnp.prod(qnp.full(7, 2, "complex64"))])
    assert [complex(x) for x in f()] == [7, 128]


# -- branches on constants ---------------------------------------------------------------------------------------------


def test_branches_that_constants_select():
    rows = qnp.arange(99.0).reshape(3, 33)

    def several(a: Any) -> list[Any]:
        sums = lax.scan(lambda c, x: (qnp.tanh(c @ c.T) + x, c.sum()), qnp.eye(3) * 0.3, qnp.arange(4.0))[1]
        twice = (lambda e: qnp.logaddexp(e, e), lambda e: e, lambda e: qnp.sort(qnp.logaddexp(e, e), 0))
        return [
            lax.cond(qnp.sum(sums) > 1, twice[0], twice[1], rows)[-2:],
            lax.switch(qnp.sum(sums).astype("int32"), twice, rows)[-2:],
            lax.fori_loop(0, 3, lambda i, c: lax.cond(qnp.sum(c) > i, *twice[:2], c), rows)[-2:],
            lax.cond(a > 0, twice[0], twice[1], rows)[-2:],
        ]

    check([Case("several", several, [np.float32(1)])])


def test_loops_of_constants_that_give_several_results():
    def loop(a: Any) -> Any:
        return lax.fori_loop(1, 0, lambda i, p: (a * 3, a * 2), (a, a))[1]

    def flags(a: Any) -> list[Any]:
        start = (qnp.zeros((), "int32"), a, qnp.zeros((), "bool"), a)
        out = lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, a <= a, a <= a, a <= a), start)
        return [out[0].astype("uint16"), out[2]]

    def fixed(x: Any) -> list[Any]:
        first, second = lax.scan(
            lambda c, x: ((c[0] + c[1] * 2, c[1]), c[0]), (qnp.zeros(()), qnp.ones(())), qnp.zeros(3)
        )[0]
        return [first + second * 10, *lax.sort((qnp.array([3, 1, 2]), qnp.arange(3)), num_keys=1)]

    check([
        Case("gradient", lambda a: [quire.grad(loop)(a)], [np.float32(2)]), Case("flags", flags, [np.bool_(True)]),
        Case("fixed", fixed, [np.float32(2)]),
    ])  # fmt: skip


# -- bfloat16 that is not stored ---------------------------------------------------------------------------------------


def test_bfloat16_is_rounded_where_it_is_compared_or_converted():
    x = np.float32(np.random.default_rng(0).standard_normal(65)).astype(dtypes.bfloat16)

    def composed(x: Any) -> Any:
        return qnp.tanh(x * x) - x

    def compared(x: Any) -> list[Any]:
        v = composed(x)
        return [
            qnp.sum(v == qnp.max(v)), qnp.sum(v.astype("float32") < qnp.min(v).astype("float32")), qnp.argmax(v),
            quire.grad(lambda x: qnp.max(composed(x)))(x), quire.grad(lambda x: qnp.min(composed(x)))(x),
        ]  # fmt: skip

    def parts(y: Any) -> list[Any]:
        high = (y * 3).astype("bfloat16").astype("float32")
        return [high * 1, y * 3 - high, (y[0] * 1).astype("bfloat16").astype("float32"), high.astype("int32")]

    found = [np.asarray(v) for v in quire.jit(compared)(x)]
    assert found[0] >= 1 and found[1] == 0 and not any(np.isnan(v.astype("float32")).any() for v in found[3:])
    check([Case("parts", parts, [np.float32(x) * np.float32(1.001)], exact=True)])


def test_integers_become_bfloat16_by_way_of_float32():
    """IREE joins the two conversions, also over what moves elements between them, to one that its code calls a function for."""

    moved = [
        lambda y: y, lambda y: y.T, lambda y: y[1:, ::2],
        lambda y: qnp.broadcast_to(y[0], (3, *y.shape)), lambda y: y[qnp.array([2, 0])],
        lambda y: qnp.concatenate([y, y * 0.5]), lambda y: qnp.pad(y, 1), lambda y: y.at[:1].set(0.1),
        lambda y: lax.cond(y[0, 0] > 0, lambda y: y, lambda y: y[::-1], y), lambda y: lax.fori_loop(0, 2, lambda i, y: y[::-1], y),
        lambda y: lax.dynamic_slice(y, (qnp.int32(1), qnp.int32(0)), (2, 2)), lambda y: qnp.where(y > 100, y, np.nan),
    ]  # fmt: skip
    integers = np.arange(15).reshape(3, 5) * 17
    check([
        Case(f"{d} {i}", lambda x, f=f: f(x.astype("float32")).astype("bfloat16"), [integers.astype(d)], exact=True)
        for d in ("uint8", "int16", "int32", "uint32") for i, f in enumerate(moved)
    ])  # fmt: skip


# -- bools as numbers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.complex64], ids=str)
def test_false_times_what_is_not_finite_is_not_a_number(dtype):
    x = np.array([np.nan, np.inf, -np.inf, 2]).astype(dtype)

    def products(a: Any, x: Any) -> list[Any]:
        return [a.astype(dtype) * x, x * (a & ~a), qnp.sum((a + 0).astype(dtype) * x), (a > 5) @ x, ~a * x[:2, None]]

    first, second, *_ = quire.jit(products)(np.zeros(4, bool), x)
    assert np.isnan(first[:3]).all() and np.isnan(second[:3]).all()
    check([Case("products", leaves(products), [np.zeros(4, bool), x])])


# -- several reduced results -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bfloat16, dtypes.int32], ids=str)
def test_positions_of_extremes_whose_readers_transpose(dtype):
    x = array(dtype, 3, 4, 5, 6)
    cases: list[Case] = []
    for axis in range(4):

        def positions(x: Any, axis: int = axis) -> Any:
            def mapped(f: Any) -> Any:
                return quire.vmap(f, in_axes=axis)(x)

            return [
                *(mapped(lambda v, i=i: qnp.argmax(v, i, keepdims=True)) for i in range(3)),
                mapped(lambda v: qnp.argmin(v, 1).T), mapped(lambda v: 2 * qnp.argmax(v, 0).T),
                mapped(lambda v: qnp.take_along_axis(v, qnp.argmin(v, 1, keepdims=True), 1)),
                mapped(lambda v: qnp.put_along_axis(
                    v, qnp.argmax(v, 1, keepdims=True), qnp.zeros((), v.dtype), 1, inplace=False
                )),
            ]  # fmt: skip

        cases.append(Case(f"in_axes={axis}", leaves(positions), [x]))
    check(cases)


# -- carried values that the body does not read ------------------------------------------------------------------------


def test_loops_that_carry_what_their_bodies_do_not_read():
    x = np.random.default_rng(3).normal(size=(4, 6)).astype(np.float32)

    def orthogonal(x: Any) -> Any:
        return qnp.linalg.qr(x.T)[0].T

    def by_flag(x: Any) -> Any:
        def body(c: Any) -> Any:
            i, a, _, _ = c
            y = orthogonal(a)
            return i + 1, y, qnp.where(i > 2, y, y * 2), qnp.logical_or(i > 2, qnp.isnan(qnp.sum(y)))

        return lax.while_loop(lambda c: ~c[3], body, (0, x, x, False))

    def chain(x: Any) -> Any:
        def body(c: Any) -> Any:
            i, a, b, s, ones, _ = c
            return i + 1, orthogonal(a) + b, qnp.zeros((4, 6)), qnp.sum(a) ** 2, qnp.ones(3) * i, qnp.arange(3)

        start = (0, x, x, 0.0, qnp.zeros(3), qnp.zeros(3, int))
        return lax.while_loop(lambda c: (c[0] < 3) & (c[3] >= 0), body, start)

    def no_trip(x: Any) -> Any:
        step = lambda c: (c[0] + 1, orthogonal(c[1]), c[1], qnp.sum(c[1]))  # noqa: E731
        return lax.while_loop(lambda c: qnp.sum(c[1]) < -1e9, step, (0, x, x + 1, 7.0))

    def swapped(x: Any) -> Any:
        step = lambda c: (c[0] + 1, orthogonal(c[1]), c[3], qnp.sum(c[1]), c[2])  # noqa: E731
        return lax.while_loop(lambda c: (c[0] < 3) & (qnp.sum(c[1]) < 1e9), step, (0, x, 0.0, 1.0, 2.0))

    def counted(x: Any, n: Any) -> Any:
        step = lambda i, c: (orthogonal(c[0]) * 2, c[0], qnp.sum(c[0]), i)  # noqa: E731
        return lax.fori_loop(0, n, step, (x, x * 0, 0.0, 7))

    check([
        *(Case(f.__name__, leaves(f), [x], rtol=1e-4, atol=1e-4) for f in (by_flag, chain, no_trip, swapped)),
        Case("counted", leaves(counted), [x, np.int32(0)], rtol=1e-4, atol=1e-4),
        Case("counted twice", leaves(counted), [x, np.int32(2)], rtol=1e-4, atol=1e-4),
    ])  # fmt: skip


# -- complex numbers in their parts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [150, 1000])
def test_sums_of_what_is_spread_beside_its_parts(n):
    """Seed 45019710 of the fuzz: imaginary parts were real parts where the last tile is shorter than the others."""
    z = (np.random.default_rng(n).standard_normal((2, n)) * np.array([[1], [1j]])).sum(0)

    def spread(z: Any) -> Any:
        return qnp.broadcast_to(z, (3, n))

    functions = [
        lambda z: (z * (1 + 2j), qnp.sum(spread(z) * (2 - 1j), 0)),
        lambda z: (qnp.abs(z), qnp.sum(0.5 - 0.25 * spread(z), 0)),
        lambda z: (z.real * 2, z.imag * 3, qnp.sum(spread(z) * (2 - 1j), 0)),
        lambda z: (z * 1j, qnp.prod(spread(z), 0)),
    ]
    with config.override(enable_x64=True):
        for dtype in ("complex128", "complex64"):
            x = z.astype(dtype)
            for f in functions:
                for got, want in zip(quire.compile(f)(x), f(qnp.asarray(x)), strict=True):
                    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-4, atol=1e-4)


def test_numbers_that_several_dispatches_read_are_computed_in_each():
    """A dispatch is taken apart (a sum of complex numbers is stored beside what is computed of it): the number that both parts
    divide by is no result of either. Beside other dispatches only (fuzz seeds 79000406 and 79000884)."""

    def pooled(x: Any) -> Any:
        def f(x: Any) -> Any:
            y = lax.reduce_window(x, -np.inf, lax.max, (1, 3), (1, 1), "SAME")
            return lax.reduce_window(y, -np.inf, lax.max, (1, 2), (1, 1), "SAME")

        return quire.jvp(f, (x,), (x * 0.5 + 0.25,))

    def centred(z: Any, s: Any) -> Any:
        m = qnp.sum(z, axis=2, keepdims=True) / s
        return m.at[np.array([-4, -9, 0, -3], np.int8)].get(mode="clip"), z + m

    z, x = array(np.complex64, 7, 7, 9), array(np.float32, 2, 2)
    check([
        Case("a constant", leaves(lambda x, z: (pooled(x), centred(z, 9.0))), (x, z)),
        Case("an argument", leaves(lambda x, z, s: (pooled(x), centred(z, s))), (x, z, np.complex64(2 + 1j))),
    ])  # fmt: skip


def test_an_element_is_taken_beside_a_reduction():
    """Levinson's recursion, forward over reverse: IREE made a vector without dimensions of the element, and refused it."""

    def recursion(r: Any) -> Any:
        n = r.shape[0] - 1
        at = qnp.arange(n)

        def step(c: Any, k: Any) -> Any:
            a, e = c
            before = qnp.roll(qnp.pad(r[1:], (0, 0))[::-1], k)[:n]
            reflection = -(r[k + 1] + qnp.sum(qnp.where(at < k, a * before, 0))) / e
            back = qnp.where(at < k, a[qnp.clip(k - 1 - at, 0, n - 1)], 0)
            a = qnp.where(at < k, a + reflection * back, a).at[k].set(reflection)
            return (a, e * (1 - reflection * reflection)), reflection

        (a, e), reflections = lax.scan(step, (qnp.zeros(n), r[0]), qnp.arange(n))
        return sum(qnp.sum(qnp.cos(x * 0.7)) for x in (a, e, reflections))

    def curved(r: Any) -> Any:
        return quire.jvp(quire.grad(recursion), (r,), (qnp.ones_like(r),))

    check([Case("levinson", leaves(curved), [(0.6 ** np.arange(13)).astype(np.float32)], rtol=1e-4, atol=1e-4)])


# -- what is gathered ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [2, 3])
def test_elements_that_windows_pick_of_a_column(window):
    """Of a column IREE gathers in place, with strides, and fails to translate that; as it does for an indexed column."""
    pool = lambda x: lax.reduce_window(x, np.array(-np.inf, np.float32), lax.max, (window,), (1,), "SAME")  # noqa: E731

    def picked(i: Any, m: Any, x: Any) -> Any:
        column = qnp.squeeze(lax.dynamic_slice(m, (0, i), (m.shape[0], 1)), 1)
        return [quire.jvp(pool, (x,), (column,))[1], *lax.top_k(column * x, 2), column[qnp.argsort(x)]]

    rng = np.random.default_rng(3)
    for n in (2, 5, 9):
        m, x = rng.normal(size=(n, 4)).astype(np.float32), rng.normal(size=n).astype(np.float32)
        check([Case(f"column of {n}", picked, (np.int32(2), m, x))])


@pytest.mark.parametrize("mode", ["clip", "fill", "promise_in_bounds"])
def test_sums_of_what_is_gathered_from_one_row(mode):
    """Of one row IREE makes a broadcast, and of the sum of its product a vector.contract that it cannot verify."""
    index, fixed = np.zeros((4, 1), np.int32), np.zeros(4, np.int32)
    cases = []
    for row in ((1, 2), (1, 3), (1, 1, 2), (2, 3)):
        d, c = array(np.float32, *row), 2 * array(np.float32, *row)
        b = array(np.float32, 4, *row[1:])
        cases.append(
            Case(
                f"{row}",
                lambda a, b, c, d: [
                    qnp.sum(d.at[a[:, 0]].get(mode=mode) * b), qnp.sum(d * c), qnp.sum(d[fixed] * b) + qnp.sum(d * 2 * c),
                ],
                (index, b, c, d),
            )
        )  # fmt: skip
    check(cases)


# -- the host's numbers -----------------------------------------------------------------------------------------------


def test_a_loop_s_counter_becomes_a_float_of_any_width(x64):
    """The host computes it: IREE's virtual machine has no conversion of 8, 16 or 32 bits to float64, and none to float16."""
    big = np.full((700, 700), 0.1)

    def loop(start: Any, to: Any, scale: int) -> Any:
        def step(c: Any) -> Any:
            return c[0] + 1, qnp.arcsin(c[1]), (c[0] * scale).astype(to)

        return lax.while_loop(lambda c: c[0] < start + 3, step, (start, qnp.asarray(big), qnp.zeros((), to)))

    kinds = [
        (np.int32(-70000), dtypes.float64, 3), (np.int32(2_000_000_001), dtypes.float64, 1), (np.uint32(4_000_000_001), dtypes.float64, 1),
        (np.int16(-300), dtypes.float64, 1), (np.uint8(250), dtypes.float64, 1), (np.int64(1 << 52), dtypes.float64, 1),
        (np.int32(-1), dtypes.float16, 1), (np.int32(-2050), dtypes.float16, 1), (np.int32(65517), dtypes.float16, 1),
        (np.int64(-99999), dtypes.float16, 1), (np.int16(2049), dtypes.float16, 1), (np.int32(-3), dtypes.float32, 7),
        (np.int32(257), dtypes.bfloat16, 1),
    ]  # fmt: skip
    for start, to, scale in kinds:
        counter, _, got = quire.compile(lambda s, to=to, scale=scale: loop(s, to, scale))(start)
        assert int(counter) == int(start) + 3
        with np.errstate(over="ignore"):
            want = np.asarray((int(start) + 2) * scale).astype(to)
        assert np.asarray(got).dtype == to and np.asarray(got) == want, (start, to, got, want)
