"""Indexing against NumPy and JAX: tables of index expressions, and random ones."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs
from hypothesis.extra import numpy as hnp

import quire
import quire.numpy as qnp

X = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)

# Expressions of valid indices of X, in which NumPy and JAX agree.
EXPRESSIONS = (
    """
0 | -1 | 1, 2, 3 | 1, -2 | ... | (), | ..., 0 | 0, ... | 0, ..., 1 | None | None, 0 | 0, None | ..., None | None, ..., None
1: | :1 | -2: | ::2 | ::-1 | 5:9 | 2:0:-1 | :, 1: | :, ::2, ::-3 | :, -1:-4:-1 | ..., 1:3 | 0, 1:, ::2 | :, :, 1:1 | None, 1:, None, 0
[0, 1], | [[0, 1], [1, 0]], | [-1, 0, 0], | :, [2, 0] | :, :, [0, -1, 3] | [0, 1], [1, 2] | [0, 1], :, [1, 2] | :, [0, 1], [1, 2]
[0, 1], 1 | 1, [0, 1] | 0, :, [0, 1] | [0, 1], :, 1 | :, 1, [0, 1] | [0, 1], 1: | [0, 1], ::2 | [0, 1], ::-1 | 1:, [0, 1], ::-2
[[0], [1]], [0, 1, 2] | [[0], [1]], :, [0, 1, 2] | [0, 1], None, [1, 2] | None, [0, 1] | [0, 1], None | 0, None, [0, 1], None
np.array([True, False]) | :, np.array([True, False, True]) | np.ones((2, 3), bool) | np.zeros((2, 3, 4), bool) | X > 7
np.array([True, True]), [0, 2] | np.array([True, True]), :, [0, 2] | True | False | True, 0 | None, True | X[0] > 3, | X[0, 0] > 5,
np.int8(1) | np.uint8(1), np.int64(-1) | np.array(1) | np.array(-1), : | np.array([], int), | :, np.zeros((0, 2), int)
np.array([1], np.uint8), | :, [0, 1], ..., 1 | :, [0, 1], 1, ... | None, [0, 1], ..., 1, 2 | None, 1, ..., [0, 1], [1, 2] | :, 1, ..., [0, 1]
::-1, [[0, 1]], ..., [2, 0] | [0, 1], ..., [0, 1], [1, 2] | :, [0, 1], 1, ..., | None, X[:, 0, 0] > -1, ..., 0, 1 | :1, ..., [0, 1], 1 | 0, ..., None, [0, 1], 1
""".strip()
    .replace("\n", " | ")
    .split(" | ")
)
EXPRESSIONS = [e.replace("X[0] > 3,", "0, X[0] > 3").replace("X[0, 0] > 5,", "0, 0, X[0, 0] > 5") for e in EXPRESSIONS]


def index_of(expression):
    """The value of ``x[expression]``'s index."""

    class Catch:
        def __getitem__(self, index):
            return index

    return eval(f"c[{expression}]", {"c": Catch(), "np": np, "X": X})


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_get_agrees_with_numpy(expression):
    index = index_of(expression)
    got = qnp.asarray(X)[index]
    want = X[index]
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)


def values_for(index):
    shape = X[index].shape
    return np.linspace(-3, 5, int(np.prod(shape)), dtype=np.float32).reshape(shape)


@functools.cache
def updated_by_jax(how):
    """For each expression the results of an update with an array and with a number, of one program."""
    indices = {e: index_of(e) for e in EXPRESSIONS if e != "None, True"}

    def update(x):
        return {e: [getattr(x.at[i], how)(v) for v in (values_for(i), 2.0)] for e, i in indices.items()}

    return jax.tree.map(np.asarray, jax.jit(update)(X))


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("how", ["set", "add", "multiply", "min", "max", "subtract"])
def test_updates_agree_with_jax(expression, how):
    index = index_of(expression)
    if expression == "None, True":
        pytest.skip("JAX 0.10.2 takes the wrong shape for the update")
    want = updated_by_jax(how)[expression]
    for value, result in zip((values_for(index), 2.0), want):
        np.testing.assert_allclose(getattr(qnp.asarray(X).at[index], how)(value), result, rtol=1e-6)


def traced(f, *args):
    """f of traced arguments, evaluated equation by equation."""
    from quire.backends.reference import eval_jaxpr

    closed = quire.make_jaxpr(f)(*args)
    return [np.asarray(x) for x in eval_jaxpr(closed, *[np.asarray(a) for a in args])][0], closed


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_traced_get_and_set_agree_with_numpy(expression):
    index = index_of(expression)
    got, _ = traced(lambda x: x[index], qnp.asarray(X))
    np.testing.assert_array_equal(got, X[index])
    want = X.copy()
    want[index] = 99
    np.testing.assert_array_equal(traced(lambda x: x.at[index].set(99.0), qnp.asarray(X))[0], want)


@pytest.mark.parametrize(
    "expression",
    [
        "i",
        "i, 1:",
        "1:, i",
        "i, ::2",
        "i, i",
        "i, None, i",
        "v",
        "v, i",
        ":, v",
        "v, :, v",
        "v, 1:, i",
        "i, ::-1, v",
        "1, v",
    ],
)
def test_traced_indices_agree_with_jax(expression):
    code = compile(f"x[{expression}]", "index", "eval")

    def f(x, i, v):
        return eval(code, {"x": x, "i": i, "v": v})

    for i, v in [(1, [0, 1]), (-1, [-1, 0]), (7, [5, -9]), (-9, [2, 2])]:
        args = (X, np.int32(i), np.array(v, np.int32))
        got, _ = traced(f, *map(qnp.asarray, args))
        np.testing.assert_array_equal(got, jax.jit(f)(*args))


def primitives(closed):
    return [e.primitive.name for e in closed.jaxpr.eqns]


def test_static_indices_lower_to_slices():
    x = qnp.zeros((4, 6))
    assert primitives(traced(lambda x: x[1], x)[1]) == ["slice", "squeeze"]
    assert primitives(traced(lambda x: x[1:3, ::2], x)[1]) == ["slice"]
    assert primitives(traced(lambda x: x[::-1], x)[1]) == ["rev"]
    assert primitives(traced(lambda x: x[...], x)[1]) == []
    assert primitives(traced(lambda x: x[:, None], x)[1]) == ["broadcast_in_dim"]
    dynamic = primitives(traced(lambda x, i: x[i], x, qnp.int32(1))[1])
    assert "gather" not in dynamic and "dynamic_slice" in dynamic
    assert "scatter" not in primitives(traced(lambda x: x.at[1:3].set(0.0), x)[1])
    assert primitives(traced(lambda x, v: x[v], x, qnp.arange(2))[1])[-1] == "gather"


@pytest.mark.parametrize("mode", [None, "clip", "fill", "promise_in_bounds"])
@pytest.mark.parametrize("index", [0, 5, -4, -9, [0, 5, -9, 1], ([1, 9], [0, 1])])
def test_get_outside_agrees_with_jax(mode, index):
    if mode == "promise_in_bounds" and not isinstance(index, int):
        return
    index = (
        jax.tree_util.tree_map(np.asarray, index, is_leaf=lambda v: isinstance(v, list))
        if not isinstance(index, int)
        else index
    )
    for dtype in (np.float32, np.int32, np.uint8, np.bool_, np.complex64):
        x = (np.arange(12).reshape(4, 3) % 7).astype(dtype)
        want = jnp.asarray(x).at[index].get(mode=mode)
        np.testing.assert_array_equal(qnp.asarray(x).at[index].get(mode=mode), want)
        if mode == "fill":
            np.testing.assert_array_equal(
                qnp.asarray(x).at[index].get(mode=mode, fill_value=1),
                jnp.asarray(x).at[index].get(mode=mode, fill_value=1),
            )


@pytest.mark.parametrize("mode", [None, "clip", "drop", "fill"])
@pytest.mark.parametrize(
    "index", [0, 5, -4, -9, [0, 5, -9, 1], ([1, 9], [0, 1]), ([1, 9], slice(None, None, 2)), (-9, slice(1, 3))]
)
def test_set_outside_agrees_with_jax(mode, index):
    index = (
        tuple(np.asarray(i) if isinstance(i, list) else i for i in index)
        if isinstance(index, tuple)
        else np.asarray(index)
        if isinstance(index, list)
        else index
    )
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    for how in ("set", "add", "min"):
        want = getattr(jnp.asarray(x).at[index], how)(-5.0, mode=mode)
        np.testing.assert_array_equal(getattr(qnp.asarray(x).at[index], how)(-5.0, mode=mode), want)


def test_empty_dimensions():
    x = qnp.zeros((0, 3))
    assert x[:, 1].shape == (0,)
    assert x[1:, None].shape == (0, 1, 3)
    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 0"):
        x[0]
    assert qnp.zeros((3, 0))[np.array([0, 1])].shape == (2, 0)


ERRORS = [
    ("0, 0, 0, 0", IndexError, "Too many indices: array is 3-dimensional, but 4 were indexed"),
    ("..., ...", IndexError, "an index can only have a single ellipsis"),
    ("1.0", TypeError, "Indexer must have integer or boolean type, got indexer with type float"),
    ("np.array([1.])", TypeError, "Indexer must have integer or boolean type, got indexer with type float"),
    ("[0, 1]", TypeError, "use `arr\\[array\\(seq\\)\\]` instead of `arr\\[seq\\]`"),
    ("[[0, 1]]", TypeError, "use `arr\\[tuple\\(seq\\)\\]`"),
    ("'a'", TypeError, "string indexing is not supported; got 'a'"),
    ("{}", IndexError, "only integers, slices"),
    ("1:'a'", TypeError, "Slice entries must be integers or None"),
    (
        "np.array([True])",
        IndexError,
        r"boolean index did not match shape of indexed array in index 0: got \(1,\), expected \(2,\)",
    ),
    ("[0, 1], [0, 1, 2]", ValueError, "do not broadcast together"),
    ("::0", ValueError, "slice step cannot be zero"),
]


@pytest.mark.parametrize("expression, error, text", ERRORS)
def test_errors(expression, error, text):
    with pytest.raises(error, match=text):
        qnp.asarray(X)[index_of(expression)]


def test_errors_of_traced_indices_name_what_to_do():
    x = qnp.arange(4)
    with pytest.raises(quire.ir.errors.NonConcreteBooleanIndexError, match=r"(?s)got bool\[4\].*quire.numpy.where"):
        quire.make_jaxpr(lambda x: x[x > 1])(x)
    with pytest.raises(IndexError, match="(?s)Slice entries must be static integers.*dynamic_slice_in_dim"):
        quire.make_jaxpr(lambda x, i: x[i : i + 2])(x, 1)


def test_mask_known_in_a_trace():
    got, _ = traced(lambda x: x[np.array([True, False, True, False])], qnp.arange(4))
    np.testing.assert_array_equal(got, [0, 2])


@settings(deadline=None, max_examples=200)
@given(hs.data())
def test_random_indices_agree_with_numpy(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    if data.draw(hs.booleans()):
        index = data.draw(hnp.basic_indices(shape, allow_newaxis=True, max_dims=6))
    else:
        index = data.draw(hnp.integer_array_indices(shape, dtype=np.int32))
    np.testing.assert_array_equal(qnp.asarray(x)[index], x[index])
    got, _ = traced(lambda x: x[index], qnp.asarray(x))
    np.testing.assert_array_equal(got, x[index])
    want = x.copy()
    want[index] = -1
    np.testing.assert_array_equal(qnp.asarray(x).at[index].set(-1), want)
    np.testing.assert_array_equal(traced(lambda x: x.at[index].set(-1), qnp.asarray(x))[0], want)


@settings(deadline=None, max_examples=400)
@given(hs.data())
def test_random_mixtures_agree_with_numpy(data):
    """Arrays that broadcast together, numbers, slices, new dimensions and an ellipsis for any number of dimensions, none too."""
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=5, min_side=1, max_side=3))
    items: list[object] = []
    for n in shape[: data.draw(hs.integers(1, len(shape)))]:
        one = hs.integers(-n, n - 1)
        array = hs.lists(one, min_size=2, max_size=2).map(np.array)
        items.append(data.draw(hs.one_of(array, array, one, hs.slices(n))))
    skipped = data.draw(hs.integers(0, len(items)))
    if data.draw(
        hs.booleans()
    ):  # the items before the ellipsis are of the first dimensions, those after it of the last
        kept = len(items) - skipped
        last = shape[len(shape) - skipped :] if skipped else ()
        items = [
            *items[:kept],
            ...,
            *(data.draw(hs.lists(hs.integers(-n, n - 1), min_size=2, max_size=2).map(np.array)) for n in last),
        ]
    if data.draw(hs.booleans()):
        items.insert(data.draw(hs.integers(0, len(items))), None)
    x, index = np.arange(np.prod(shape), dtype=np.int32).reshape(shape), tuple(items)
    np.testing.assert_array_equal(qnp.asarray(x)[index], x[index])
    np.testing.assert_array_equal(traced(lambda x: x[index], qnp.asarray(x))[0], x[index])
    want = x.copy()
    want[index] = -1
    np.testing.assert_array_equal(traced(lambda x: x.at[index].set(-1), qnp.asarray(x))[0], want)


def test_derivatives_of_what_lies_outside():
    """An integer outside reads the nearest element; beside index arrays or a slice with gaps that has no derivative, as in JAX."""
    cases = {
        "[3]": [3],
        "[3, 1]": [3, 1],
        "[-14, ::3]": [-14, slice(None, None, 3)],
        "[3, [0, 1]]": [3, np.array([0, 1])],
    }
    for name, index in cases.items():
        (got, wanted) = (
            lib.value_and_grad(lambda x, index=index: x[tuple(index)].sum())(lib.numpy.arange(1.0, 7).reshape(1, 6))
            for lib in (quire, jax)
        )
        for a, b in zip(got, wanted):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b), err_msg=name)


@pytest.mark.parametrize("shape", [(3, 3, 2, 2), (8, 0, 9, 1), (2, 3, 4), (2, 3, 2, 3, 2)])
def test_diagonals_of_arrays_of_many_dimensions(shape):
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    for offset in (0, 1, -1, 5):
        for axes in ((0, 1), (1, 0), (-1, 0), (1, 2)):
            np.testing.assert_array_equal(qnp.diagonal(x, offset, *axes), np.diagonal(x, offset, *axes))
            np.testing.assert_array_equal(qnp.trace(x, offset, *axes), np.trace(x, offset, *axes))


def test_compiled():
    @quire.compile
    def f(x, i, v):
        return (
            x[1], x[::-1, 1:], x[i], x[v], x[:, v, None], x[v, :, i], x.at[i].set(0.0), x.at[v].add(1.0),
            x.at[1:, ::2].multiply(2.0), x.at[0, 1:].set(7.0), x.at[v, 5].set(1.0),
        )  # fmt: skip

    args = (X, np.int32(1), np.array([1, 0, 1], np.int32))
    want = f.__wrapped__(*map(jnp.asarray, args))
    for a, b in zip(f(*map(qnp.asarray, args)), want, strict=True):
        np.testing.assert_allclose(a, b)


def strided(np, lax, x, y, i):
    """Updates at slices with gaps, of many places: alone, beside indices and in loops; a gradient and a batch."""

    def red_black(k, u):
        for a, b in ((0, 0), (1, 1)):
            u = u.at[a::2, b::2].set(0.25 * u[a::2, b::2] + 0.5 * u[1 - a :: 2, b::2])
        return u

    return (
        x.at[::2, ::2].set(y), x.at[1::2, ::-2].add(y), x.at[-1::-2, 1::2].min(y), x.at[::2].multiply(y[:, :1]),
        x.at[::2, i].set(y[:, :3]), x.at[3:70:2, 1:65:3].max(1.0), x[None].at[0, ::2, ::2].set(y), x.at[::2, 1:65].add(1.0),
        lax.fori_loop(0, 3, red_black, x),
        lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, np.sort(red_black(0, c[1]), 0)), (0, x))[1],
    )  # fmt: skip


def test_many_places_with_gaps_are_computed_and_no_constant():
    x = np.random.default_rng(0).normal(size=(80, 66)).astype(np.float32)
    y, i = np.random.default_rng(1).normal(size=(40, 33)).astype(np.float32), np.array([5, 0, 70], np.int32)

    def program(quire):
        def f(x, y, i):
            given = functools.partial(strided, quire.numpy, quire.lax)
            batch = quire.vmap(lambda y: x.at[::2, ::2].add(y))(quire.numpy.stack([y, 2 * y]))
            of = quire.grad(lambda x, y: quire.numpy.sum(quire.numpy.sin(x.at[::2, ::2].multiply(y))), (0, 1))(x, y)
            return given(x, y, i), batch, of

        return f

    got = quire.compile(program(quire))(x, y, i)
    for a, b in zip(quire.tree.leaves(got), jax.tree.leaves(jax.jit(program(jax))(x, y, i)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    closed = quire.make_jaxpr(lambda x, y: x.at[::2, ::2].set(y))(x, y)
    assert not closed.consts and "iota" in primitives(closed)
    few = quire.make_jaxpr(lambda x: x.at[::2].set(0.0))(x[:20, 0])
    assert any(c.shape == (10, 1) for c in few.consts)


HOW = ("set", "add", "multiply", "min", "max", "divide", "power")
#: Operand, how, index, value and options of an update.
Case = tuple[Any, str, Any, Any, dict[str, bool]]


def not_wrapped(lib) -> list[Case]:
    """Negative integers that do not count from the end, as scalars, in arrays and beside slices."""
    np_ = lib.numpy
    places = (-2, np_.array([-2]), np_.array(-2), (slice(None), -1), (np_.array([0, 1]), -1), slice(-2, None))
    x = np_.arange(1.0, 13).reshape(4, 3)
    return [(x, how, i, 2.0, {"wrap_negative_indices": False}) for how in HOW for i in places]


def bools(lib) -> list[Case]:
    """Arithmetic of bools, which is refused however the elements are selected."""
    x = lib.numpy.zeros((5, 3), bool)
    return [(x, how, i, True, {}) for how in HOW for i in (lib.numpy.array([1, 2]), 1, slice(1, None))]


def of_weak_type(lib) -> list[Case]:
    """Arrays that numbers without a width were made of, updated by such that have one."""
    np_ = lib.numpy
    x = np_.where(np_.eye(2, dtype=bool), 0.0, 1.0)
    places = (0, np_.array([0]), slice(None), (slice(None), 0), slice(None, None, 2))
    return [(x, how, i, np.float32(2), {}) for how in HOW for i in places]


@pytest.mark.parametrize("cases", [not_wrapped, bools, of_weak_type])
def test_updates_are_of_jax_types_eager_and_traced(cases):
    def described(f):
        try:
            y = f()
        except Exception as error:
            return type(error).__name__
        return y.shape, str(y.dtype), bool(y.weak_type), np.asarray(y).tolist()

    for (x, how, i, v, options), (jx, _, ji, jv, _) in zip(cases(quire), cases(jax)):

        def update(x, i=i, v=v, how=how, options=options):
            return getattr(x.at[i], how)(v, **options)

        def update_of_jax(x, i=ji, v=jv, how=how, options=options):
            return getattr(x.at[i], how)(v, **options)

        eager, wanted = described(functools.partial(update, x)), described(functools.partial(update_of_jax, jx))
        assert eager == wanted, (how, i)
        if isinstance(wanted, str):
            with pytest.raises(TypeError):
                quire.make_jaxpr(update)(x)
            continue
        got, closed = traced(update, x)
        assert (closed.out_avals[0].weak_type, got.tolist()) == wanted[2:], (how, i)


def test_elements_that_are_taken_do_not_count_from_the_end():
    """What `mode="clip"` and segments mean by a negative scalar."""

    def every(lib):
        np_ = lib.numpy
        x = np_.arange(1.0, 13).reshape(4, 3)
        return [
            np_.take(x, -1, axis=0, mode="clip"), np_.take(x, np_.array(-2), axis=0, mode="clip"),
            np_.take(x, -1, mode="clip"), np_.take(x, -1, axis=0, mode="wrap"), np_.take(x, -1, axis=0),
            lib.ops.segment_sum(np.float32(1), np_.array(-1), 2), lib.ops.segment_max(np.float32(1), np_.array(-1), 2),
            x.at[:, -2].get(mode="fill", fill_value=9, wrap_negative_indices=False),
        ]  # fmt: skip

    for got, want in zip(every(quire), every(jax)):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
