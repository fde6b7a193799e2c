"""The Array itself: conversions, protocols, printing, copies, errors."""

from __future__ import annotations

import copy
import pickle

import jax.numpy as jnp
import numpy as np
import pytest

import quire
import quire.numpy as qnp

from .numpy_cases import DTYPES, values


@pytest.mark.parametrize("shape", [(), (3,), (20,), (2, 3), (0, 3), (40, 40)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_repr_and_str_are_jax(shape, dtype):
    x = np.resize(values(dtype), shape)
    assert repr(qnp.asarray(x)) == repr(jnp.asarray(x))
    assert str(qnp.asarray(x)) == str(jnp.asarray(x))


def test_weak_types_are_shown():
    for f in (
        lambda m: m.asarray(1),
        lambda m: m.asarray(1) + 1,
        lambda m: m.arange(3) * 1.5,
        lambda m: m.full((2,), 1),
    ):
        assert repr(f(qnp)) == repr(f(jnp))


def test_conversions():
    x = qnp.asarray(3)
    assert int(x) == 3 and float(x) == 3.0 and complex(x) == 3 and [1, 2, 3, 4][x] == 4 and bool(x)
    assert x.item() == 3 and qnp.arange(3).tolist() == [0, 1, 2] and f"{qnp.float32(2.5):.3f}" == "2.500"
    assert list(qnp.arange(2)) == [0, 1] and len(qnp.zeros((4, 2))) == 4


@pytest.mark.parametrize(
    "use, error, text",
    [
        (lambda x: int(x), TypeError, r"Only scalar arrays can be converted to Python scalars; got arr.ndim=2"),
        (lambda x: float(x), TypeError, r"Only scalar arrays can be converted to Python scalars"),
        (lambda x: bool(x), ValueError, r"more than one element is ambiguous. Use a.any\(\) or a.all\(\)"),
        (lambda x: bool(x[:0]), ValueError, "truth value of an empty array is ambiguous"),
        (lambda x: [1][x], TypeError, "Only integer scalar arrays can be converted to a scalar index"),
        (lambda x: hash(x), TypeError, "unhashable type"),
        (lambda x: len(x[0, 0]), TypeError, r"len\(\) of unsized object"),
        (lambda x: iter(x[0, 0]), TypeError, "iteration over a 0-d array"),
        (lambda x: x.item(), ValueError, "can only convert an array of size 1 to a Python scalar"),
        (
            lambda x: x + [1],
            TypeError,
            r"unsupported operand type\(s\) for \+: 'Array' and 'list'; make it an array first",
        ),
        (lambda x: [1] * x, TypeError, r"unsupported operand type\(s\) for \*: 'list' and 'Array'"),
        (lambda x: x @ 1, ValueError, "matmul: input operand 1 must have ndim at least 1"),
        (
            lambda x: x.reshape(4),
            TypeError,
            r"quire.numpy.reshape: cannot reshape f32\[2,3\] of size 6 into shape \(4,\)",
        ),
        (lambda x: x.sum(axis=3), ValueError, "quire.numpy.sum: axis 3 is out of bounds for array of dimension 2"),
        (lambda x: x.sum(out=3), NotImplementedError, "quire.numpy.sum: the 'out' argument is not supported"),
        (lambda x: quire.Array(), TypeError, "use quire.numpy.array"),
    ],
)
def test_errors(use, error, text):
    with pytest.raises(error, match=text):
        use(qnp.arange(6.0).reshape(2, 3))


def test_item_assignment_shows_what_to_write():
    weights = qnp.zeros((3, 4))
    with pytest.raises(
        TypeError, match=r"(?s)do not support item assignment.*weights = weights.at\[1:, 0\].set\(5.0\)"
    ):
        weights[1:, 0] = 5.0
    with pytest.raises(TypeError, match=r"weights = weights.at\[0\].add\(2 \* 3\)"):
        weights[0] += 2 * 3
    with pytest.raises(TypeError, match=r"weights = weights.at\[0\].set\(weights\[0\] % 2\)"):
        weights[0] %= 2
    with pytest.raises(TypeError, match=r"x = x.at\[idx\].set\(y\)"):
        exec("weights[0] = 1", {"weights": weights})


def test_numpy_protocols():
    x = qnp.arange(6.0).reshape(2, 3)
    a = np.asarray(x)
    assert a.dtype == np.float32 and not a.flags.writeable
    assert np.shares_memory(a, np.asarray(x))
    with pytest.raises(ValueError, match="read-only"):
        a[0] = 1
    assert np.array(x).flags.writeable
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert np.asarray(qnp.ones(2, "bfloat16")).dtype == qnp.bfloat16.dtype
    assert isinstance(np.ones(3, np.float32) + qnp.ones(3), quire.Array)
    assert np.add(np.ones(3), qnp.ones(3)).dtype == np.float64
    assert (np.float32(2) * qnp.ones(3)).shape == (3,)


def test_dlpack_both_ways():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = qnp.from_dlpack(a)
    assert np.shares_memory(np.asarray(x), a)
    back = np.from_dlpack(x)
    assert np.shares_memory(back, a)
    computed = qnp.asarray(a) * 2
    np.testing.assert_array_equal(np.from_dlpack(computed), a * 2)
    np.testing.assert_array_equal(jnp.from_dlpack(computed), a * 2)
    assert computed.__dlpack_device__() == (1, 0)
    assert computed.__dlpack__() is not None
    with pytest.raises(BufferError, match="bfloat16 has no DLPack form"):
        qnp.ones(2, "bfloat16").__dlpack__()
    with pytest.raises(TypeError, match="has no method __dlpack__"):
        qnp.from_dlpack([1])


def test_copies_and_pickles():
    for x in (qnp.arange(3), qnp.asarray(1.5), qnp.ones((2, 2), "bfloat16")):
        for y in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x), x.copy()):
            assert y is not x and y.dtype == x.dtype and y.weak_type == x.weak_type and y.shape == x.shape
            np.testing.assert_array_equal(np.asarray(y, np.float32), np.asarray(x, np.float32))


def test_arrays_do_not_follow_numpy_memory():
    a = np.ones(3, np.float32)
    x, y = qnp.asarray(a), qnp.array(a)
    a[:] = 7
    np.testing.assert_array_equal(x, [1, 1, 1])
    np.testing.assert_array_equal(y, [1, 1, 1])


def test_places_and_life():
    x = qnp.arange(3)
    assert x.devices() == {x.device} and x.device.platform == "cpu"
    assert x.addressable_data(0) is x and x.block_until_ready() is x and x.is_ready() and not x.is_deleted()
    assert x.nbytes == 12 and x.itemsize == 4 and x.on_device_size_in_bytes() == 12
    with pytest.raises(IndexError, match="index 1 is out of range"):
        x.addressable_data(1)
    x.delete()
    assert x.is_deleted() and "deleted" in repr(x)
    with pytest.raises(RuntimeError, match=r"i32\[3\]"):
        x + 1
    with pytest.raises(RuntimeError):
        np.asarray(x)


def test_methods_work_on_traced_values():
    @quire.jit
    def f(x):
        assert x.nbytes == 24 and x.itemsize == 4
        return (
            x.T,
            x.sum(),
            x.mean(axis=0),
            x.reshape(3, 2),
            x[0],
            x.astype(int),
            x.var(),
            x.trace(),
            x.real,
            [r for r in x],
            len(x),
        )

    x = qnp.arange(6.0).reshape(2, 3)
    out = f(x)
    np.testing.assert_allclose(out[6], np.var(np.arange(6)), rtol=1e-6)
    np.testing.assert_allclose(out[7], 4)
    assert out[10] == 2 and len(out[9]) == 2


def test_compiled_results_are_arrays():
    y = quire.jit(lambda x: x * 2)(qnp.arange(3.0))
    assert repr(y) == "Array([0., 2., 4.], dtype=float32)"
    assert y.tolist() == [0, 2, 4] and np.asarray(y).tolist() == [0, 2, 4]
    assert y[1].item() == 2 and (y + 1).tolist() == [1, 3, 5]


@pytest.mark.parametrize("shape", [(), (2, 2), (0, 3)])
def test_values_are_searched_in_vectors(shape):
    text = (
        r"^value in x: x must have one dimension, got f32\["
        + ",".join(map(str, shape))
        + r"\]: write \(x == value\)\.any\(\)"
    )
    with pytest.raises(ValueError, match=text):
        _ = 1.0 in qnp.zeros(shape)
