"""Sparse arrays: BCOO against JAX's, over layouts, padding and duplicates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental import sparse as jax_sparse

import quire
import quire.numpy as qnp
from quire.experimental import sparse

M = np.array([[0, 2, 0, 1], [3, 0, 0, 0], [0, 0, 0, 4]], np.float32)
T = (np.arange(24, dtype=np.float32).reshape(2, 3, 4) % 5) * (np.arange(24).reshape(2, 3, 4) % 3 == 0)


def layouts(whole: np.ndarray, nse: int | None = None) -> Iterator[tuple[sparse.BCOO, Any]]:
    """An array in some layouts, as quire's and as JAX's BCOO."""
    for b, d in ((0, 0), (1, 0), (0, 1), (1, 1))[: 4 if whole.ndim > 2 else 3]:
        if whole.ndim == 2 or (b, d) in ((1, 0), (1, 1)):
            yield (
                sparse.BCOO.fromdense(whole, n_batch=b, n_dense=d, nse=nse),
                jax_sparse.BCOO.fromdense(whole, n_batch=b, n_dense=d, nse=nse),
            )


def same(got: Any, want: Any, what: Any = "") -> None:
    """The same array: buffers, shape and what is known of the indices, where it is sparse."""
    if not isinstance(want, jax_sparse.BCOO):
        assert got.dtype == want.dtype, what
        np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=str(what))
        return
    assert isinstance(got, sparse.BCOO), what
    assert (got.shape, got.n_batch, got.n_dense) == (want.shape, want.n_batch, want.n_dense), what
    assert (got.dtype, got.indices.dtype) == (want.dtype, want.indices.dtype), what
    if got.n_sparse:
        assert (got.indices_sorted, got.unique_indices) == (want.indices_sorted, want.unique_indices), what
    np.testing.assert_array_equal(got.indices, want.indices, err_msg=str(what))
    np.testing.assert_allclose(got.data, want.data, rtol=1e-6, err_msg=str(what))


def agree(f: Callable[[Any, Any], Any], ours: Any, theirs: Any, what: Any = "") -> None:
    """A function of the module and an array gives the same, or the same kind of error."""
    try:
        want = f(jax_sparse, theirs)
    except (NotImplementedError, ValueError, TypeError) as error:
        if "verifier errors" in str(error):  # a layout that JAX does not compile
            assert f(sparse, ours).shape
            return
        with pytest.raises(type(error)):
            f(sparse, ours)
        return
    same(f(sparse, ours), want, what)


@pytest.mark.parametrize("whole", [M, T], ids=["matrix", "three dimensions"])
@pytest.mark.parametrize("nse", [None, 1, 30])
def test_every_layout_is_made_as_by_jax_and_made_whole(whole: np.ndarray, nse: int | None) -> None:
    for ours, theirs in layouts(whole, nse):
        same(ours, theirs)
        assert repr(ours) == repr(theirs) and (ours.nse, ours.n_sparse) == (theirs.nse, theirs.n_sparse)
        same(ours.todense(), theirs.todense())
        if nse != 1:
            assert np.array_equal(ours.todense(), whole)


STRUCTURE = {
    "slice": lambda s, m: s.bcoo_slice(m, start_indices=(1,) * m.ndim, limit_indices=m.shape, strides=(2,) * m.ndim),
    "dynamic_slice": lambda s, m: s.bcoo_dynamic_slice(m, (1,) * m.ndim, (2,) * m.ndim),
    "rev": lambda s, m: s.bcoo_rev(m, tuple(range(m.ndim))),
    "sum of the first": lambda s, m: s.bcoo_reduce_sum(m, axes=(0,)),
    "sum of the last": lambda s, m: s.bcoo_reduce_sum(m, axes=(m.ndim - 1,)),
    "sum": lambda s, m: m.sum(),
    "kept dimension": lambda s, m: m.sum(0, keepdims=True),
    "transpose": lambda s, m: m.T,
    "swap": lambda s, m: s.bcoo_transpose(m, permutation=(*range(m.ndim - 2), m.ndim - 1, m.ndim - 2)),
    "new first dimension": lambda s, m: s.bcoo_broadcast_in_dim(
        m, shape=(2, *m.shape), broadcast_dimensions=tuple(range(1, m.ndim + 1))
    ),
    "new second dimension": lambda s, m: s.bcoo_broadcast_in_dim(
        m, shape=(m.shape[0], 1, *m.shape[1:]), broadcast_dimensions=(0, *range(2, m.ndim + 1))
    ),
    "concatenate first": lambda s, m: s.bcoo_concatenate([m, m], dimension=0),
    "concatenate last": lambda s, m: s.bcoo_concatenate([m, m], dimension=m.ndim - 1),
    "sort": lambda s, m: m.sort_indices(),
    "sum_duplicates": lambda s, m: m.sum_duplicates(),
    "sum_duplicates to 5": lambda s, m: (m + m).sum_duplicates(nse=5, remove_zeros=False),
    "int": lambda s, m: m[1],
    "last int": lambda s, m: m[..., -1],
    "steps": lambda s, m: m[::2, ::-1],
    "None": lambda s, m: m[:, None],
    "array": lambda s, m: m[np.array([1, 0])],
    "fewer batches": lambda s, m: m.update_layout(n_batch=0, n_dense=0),
    "more batches": lambda s, m: m.update_layout(n_batch=1, n_dense=0, on_inefficient=None),
    "more dense": lambda s, m: m.update_layout(n_batch=0, n_dense=1, on_inefficient=None),
    "extract": lambda s, m: s.bcoo_extract(m, m.todense() + 1),
    "flat": lambda s, m: m.reshape(-1),
    "add": lambda s, m: m + m,
    "sub": lambda s, m: m - m,
    "mul": lambda s, m: m * m,
    "mul dense": lambda s, m: m * (m.todense() + 1),
    "mul row": lambda s, m: m * np.arange(4, dtype=np.float32),
    "div": lambda s, m: m / (m.todense() + 1),
    "scalars": lambda s, m: 2 * -m / 4,
    "square": lambda s, m: abs(m**2),
    "dtype": lambda s, m: m.astype(np.int32) + m,
    "plus dense": lambda s, m: m + m.todense(),
}  # fmt: skip


@pytest.mark.parametrize("name", STRUCTURE)
def test_structure_and_operators_are_those_of_jax_in_every_layout(name: str) -> None:
    f = STRUCTURE[name]
    for ours, theirs in layouts(M):
        agree(f, ours, theirs, (name, ours))
    agree(f, *next(layouts(T)), name)
    if name != "mul":  # JAX's padding depends on that of its operands there
        agree(f, sparse.BCOO.fromdense(M, nse=6), jax_sparse.BCOO.fromdense(M, nse=6), (name, "padded"))


NUMBERS: list[tuple[Any, tuple[int, ...]]] = [
    ((((2,), (0,)), ((), ())), (4, 2)),
    ((((1,), (1,)), ((), ())), (2, 3)),
    ((((1, 2), (1, 0)), ((), ())), (4, 3)),
    ((((2,), (1,)), ((0,), (0,))), (2, 4, 3)),
    ((((0,), (0,)), ((), ())), (2, 3)),
    ((((), ()), ((), ())), (2,)),
    ((((), ()), ((0,), (1,))), (3, 2)),
    ((((2,), (2,)), ((0, 1), (1, 0))), (3, 2, 4)),
]


@pytest.mark.parametrize(("numbers", "shape"), NUMBERS)
def test_products_with_arrays_are_those_of_jax(numbers: Any, shape: tuple[int, ...]) -> None:
    rhs = np.random.RandomState(0).standard_normal(shape).astype(np.float32)
    swapped = tuple(pair[::-1] for pair in numbers)
    for ours, theirs in layouts(T):
        agree(lambda s, m: s.bcoo_dot_general(m, rhs, dimension_numbers=numbers), ours, theirs, ours)
        agree(lambda s, m: s.bcoo_dot_general(rhs, m, dimension_numbers=swapped), ours, theirs, ours)


@pytest.mark.parametrize(("a", "b", "numbers"), [
    (0, 0, (((1,), (1,)), ((), ()))), (0, 0, (((), ()), ((), ()))), (1, 1, (((1,), (1,)), ((0,), (0,)))),
    (1, 0, (((1,), (1,)), ((), ()))), (1, 1, (((1,), (1,)), ((), ()))), (0, 1, (((1,), (1,)), ((), ()))),
    (1, 1, (((), ()), ((0,), (0,)))), (1, 1, (((0,), (0,)), ((), ()))),
])  # fmt: skip
def test_products_of_sparse_arrays_are_those_of_jax(a: int, b: int, numbers: Any) -> None:
    def product(s: Any, _: Any) -> Any:
        lhs, rhs = s.BCOO.fromdense(M, n_batch=a, nse=5), s.BCOO.fromdense(M * 2, n_batch=b)
        return s.bcoo_dot_general(lhs, rhs, dimension_numbers=numbers)

    agree(product, None, None)


def test_elements_of_products_and_convolutions() -> None:
    a, b = (np.random.RandomState(i).standard_normal((3, 4, 5)).astype(np.float32) for i in (0, 1))
    numbers = (((2,), (2,)), ((0,), (0,)))
    whole = np.einsum("bik,bjk->bij", a, b)
    for ours, theirs in layouts(np.where(whole > 0, whole, 0)):
        got = sparse.bcoo_dot_general_sampled(a, b, ours.indices, dimension_numbers=numbers)
        want = jax_sparse.bcoo_dot_general_sampled(a, b, theirs.indices, dimension_numbers=numbers)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    x, y = M[:1, None], np.arange(3, dtype=np.float32)[None, None]
    for padding in ("SAME", "VALID", [(1, 2)]):
        for both in (True, False):

            def convolved(s: Any, _: Any, padding: Any = padding, both: bool = both) -> Any:
                lhs, rhs = s.BCOO.fromdense(x, n_batch=2), s.BCOO.fromdense(y, n_batch=2)
                return s.bcoo_conv_general_dilated(
                    lhs, rhs if both else y, window_strides=(1,), padding=padding
                ).todense()

            agree(convolved, None, None)


def test_duplicates_and_what_is_outside() -> None:
    indices, data = np.array([[0, 1], [2, 9], [0, 1], [3, 4], [1, 0]], np.int32), np.arange(1, 6, dtype=np.float32)
    ours, theirs = (s.BCOO((data, indices), shape=(3, 4)) for s in (sparse, jax_sparse))
    for name in (
        "slice",
        "rev",
        "sum of the last",
        "sum",
        "sort",
        "sum_duplicates",
        "steps",
        "flat",
        "mul",
        "div",
        "square",
    ):
        agree(lambda s, m, name=name: s.todense(STRUCTURE[name](s, m)), ours, theirs, name)
    whole = np.asarray(ours.todense())
    for axis in (0, 1):
        both = sparse.bcoo_concatenate([ours, ours], dimension=axis)
        assert np.array_equal(both.todense(), np.concatenate([whole, whole], axis))
    shared = indices[None]
    for data in (np.ones((1, 5), np.float32), np.arange(10, dtype=np.float32).reshape(2, 5)):
        a, b = (s.BCOO((data, shared), shape=(2, 3, 4)) for s in (sparse, jax_sparse))
        for name in ("sum_duplicates", "sort", "add", "mul"):
            agree(lambda s, m, name=name: s.todense(STRUCTURE[name](s, m)), a, b, name)
        assert np.array_equal(a.sum(0).todense(), np.asarray(a.todense()).sum(0))


def test_they_are_compiled_differentiated_mapped_and_scanned() -> None:
    m, theirs = (s.BCOO.fromdense(T, n_batch=1, nse=5) for s in (sparse, jax_sparse))
    x = np.arange(4, dtype=np.float32)

    def loss(s: Any, np_: Any, m: Any, x: Any) -> Any:
        whole = m * x + m
        return ((m @ x) ** 2).sum() + np_.sin((whole.sum_duplicates(nse=6, remove_zeros=False).sum(1)).todense()).sum()

    def data_of(s: Any, np_: Any) -> Callable[..., Any]:
        def f(data: Any, indices: Any, x: Any) -> Any:
            return loss(s, np_, s.BCOO((data, indices), shape=T.shape), x)

        return f

    want = jax.value_and_grad(data_of(jax_sparse, jax.numpy), (0, 2))(theirs.data, theirs.indices, x)
    ours = quire.value_and_grad(data_of(sparse, qnp), (0, 2))
    for f in (ours, quire.jit(ours)):
        got = f(m.data, m.indices, x)
        for g, w in zip(quire.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(want), strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5)
    tangents = (np.ones_like(m.data), np.ones_like(x))
    _, t = quire.jvp(lambda d, x: data_of(sparse, qnp)(d, m.indices, x), (m.data, x), tangents)
    assert np.isclose(t, sum(np.sum(g) for g in want[1]), rtol=1e-4)

    def lanes(m: Any, x: Any) -> Any:
        return m @ x, m * 2, m.T

    product, twice, turned = quire.jit(quire.vmap(lanes, (0, None)))(m, x)
    same(product, theirs.todense() @ x)
    same(twice, theirs * 2)
    assert turned.shape == (2, 4, 3) and np.array_equal(turned.todense(), T.swapaxes(1, 2))

    def step(m: sparse.BCOO, x: Any) -> tuple[sparse.BCOO, Any]:
        return 2 * m, (m @ x).sum()

    last, sums = quire.lax.scan(step, m, np.ones((3, 4), np.float32))
    assert np.array_equal(last.todense(), 8 * T) and np.allclose(sums, T.sum() * np.array([1, 2, 4]))


ERRORS: list[tuple[Callable[[sparse.BCOO], Any], type[Exception], str]] = [
    (lambda m: sparse.BCOO((np.zeros(2), np.zeros((3, 2), int)), shape=(4, 4)), ValueError, r"Invalid data.shape=\(2,\)"),
    (lambda m: sparse.BCOO((np.zeros(2), np.zeros(3, int)), shape=(4, 4)), ValueError, r"Invalid indices.shape=\(3,\)"),
    (lambda m: sparse.BCOO((np.zeros(3), np.zeros((3, 3), int)), shape=(4, 4)), ValueError, "n_sparse=3"),
    (lambda m: sparse.BCOO.fromdense(M, n_batch=3), ValueError, "n_batch=3 and n_dense=0 of an array of 2"),
    (lambda m: quire.jit(lambda x: sparse.BCOO.fromdense(x).data)(M), quire.errors.ConcretizationTypeError, "nse argument"),
    (lambda m: quire.jit(lambda m: m.sum_duplicates())(m), ValueError, "nse must be specified"),
    (lambda m: m.update_layout(n_batch=1), sparse.SparseEfficiencyError, "increasing n_batch from 0 to 1"),
    (lambda m: m.update_layout(n_batch=-1), ValueError, "n_batch must be non-negative"),
    (lambda m: m.update_layout(n_batch=2, n_dense=1), ValueError, "cannot be larger than mat.ndim=2"),
    (lambda m: m.update_layout(n_dense=1, on_inefficient="no"), ValueError, "on_inefficient='no'"),
    (lambda m: m.transpose((0, 0)), TypeError, "isn't a permutation"),
    (lambda m: m.update_layout(n_batch=1, on_inefficient=None).T, NotImplementedError, "cannot permute batch axes"),
    (lambda m: sparse.BCOO.fromdense(M, n_dense=1).T, NotImplementedError, "cannot permute dense axes"),
    (lambda m: m @ np.zeros(3, np.float32), TypeError, "must be equal"),
    (lambda m: m + m.T, TypeError, "incompatible shapes"),
    (lambda m: m + 1.0, NotImplementedError, "prevent silent densification"),
    (lambda m: 1.0 - m, NotImplementedError, "Subtraction between sparse and dense"),
    (lambda m: 1.0 / m, NotImplementedError, "Division by a sparse array"),
    (lambda m: m * np.ones((2, 3, 4), np.float32), NotImplementedError, "output shape matches the sparse"),
    (lambda m: m == m, NotImplementedError, "eq is not implemented because it would result in dense"),  # noqa: PLR0124
    (lambda m: m**-1, NotImplementedError, "non-positive exponent -1"),
    (lambda m: m.sum(3), ValueError, "axis 3"),
    (lambda m: sparse.bcoo_reduce_sum(m, axes=(2,)), ValueError, r"axes \(2,\)"),
    (lambda m: m.reshape(5, 3), TypeError, "cannot reshape"),
    (lambda m: sparse.bcoo_reshape(m, new_sizes=(5, 3)), TypeError, "cannot reshape array of shape"),
    (lambda m: sparse.bcoo_reshape(m, new_sizes=(12,), sharding=1), NotImplementedError, "sharding"),
    (lambda m: sparse.BCOO.fromdense(M, n_batch=1).reshape(6, 2), ValueError, "cannot mix batch and sparse"),
    (lambda m: sparse.BCOO.fromdense(M, n_dense=1).reshape(2, 6), ValueError, "cannot mix sparse and dense"),
    (lambda m: sparse.bcoo_squeeze(m, dimensions=(0,)), ValueError, "size not equal to one"),
    (lambda m: sparse.bcoo_squeeze(m, dimensions=(5,)), ValueError, r"dimensions \(5,\)"),
    (lambda m: sparse.bcoo_rev(m, (5,)), TypeError, "less than operand ndim"),
    (lambda m: sparse.bcoo_slice(m, start_indices=(0,), limit_indices=(1,)), ValueError, "expected 2 start_indices"),
    (lambda m: sparse.bcoo_slice(m, start_indices=(0, 0), limit_indices=(1, 9)), ValueError, "invalid indices"),
    (lambda m: sparse.bcoo_dynamic_slice(m, (0,), (1, 1)), ValueError, "Length of slice indices"),
    (lambda m: sparse.bcoo_dynamic_slice(m, (0, 0), (1, 9)), TypeError, "less than or equal"),
    (lambda m: sparse.bcoo_broadcast_in_dim(m, shape=(3, 2, 4), broadcast_dimensions=(0, 2)), NotImplementedError, "lengths != 1"),
    (lambda m: sparse.bcoo_broadcast_in_dim(m, shape=(3, 4), broadcast_dimensions=(1, 0)), ValueError, "broadcast_dimensions"),
    (lambda m: sparse.bcoo_concatenate([], dimension=0), ValueError, "non-empty"),
    (lambda m: sparse.bcoo_concatenate([m, m.T], dimension=0), TypeError, "Cannot concatenate"),
    (lambda m: sparse.bcoo_concatenate([m, m], dimension=2), TypeError, "out of bounds"),
    (lambda m: sparse.bcoo_concatenate([m, sparse.BCOO.fromdense(M, n_batch=1)], dimension=0), ValueError, "matching batch"),
    (lambda m: sparse.bcoo_extract(M, M), TypeError, "should be a BCOO"),
    (lambda m: sparse.bcoo_extract(m, M[:2]), ValueError, "shape mismatch"),
    (lambda m: sparse.bcoo_multiply_sparse(m, sparse.BCOO.fromdense(M[0])), TypeError, "same number of dimensions"),
    (lambda m: sparse.bcoo_multiply_sparse(m, sparse.BCOO.fromdense(M, n_dense=1)), NotImplementedError, "dense dimensions"),
    (lambda m: sparse.bcoo_dot_general(m, M, dimension_numbers=(((1,), (1,)), ((0,), (0,)))), NotImplementedError, "among the batch"),
    (lambda m: sparse.bcoo_conv_general_dilated(m, m, window_strides=(1,), padding="SAME"), NotImplementedError, "one dimension"),
    (lambda m: quire.vmap(lambda m: m * 2)(m), ValueError, "Cannot map in_axis=0 for BCOO array with n_batch=0"),
    (
        lambda m: quire.vmap(lambda m: m * 2, 0, 1)(sparse.BCOO.fromdense(M, n_batch=1)), ValueError, "cannot add out_axis=1",
    ),
    (lambda m: hash(m), TypeError, "unhashable"),
    (lambda m: sparse.BCOO.from_scipy_sparse(None, n_batch=1), NotImplementedError, "n_dense/n_batch"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_what_is_wrong_is_said(case: int) -> None:
    f, kind, text = ERRORS[case]
    with pytest.raises(kind, match=text):
        f(sparse.BCOO.fromdense(M))
    with pytest.warns(sparse.SparseEfficiencyWarning, match="increasing n_dense"):
        sparse.BCOO.fromdense(M).update_layout(n_dense=1, on_inefficient="warn")
