"""Eager programs: what they compute is what the function computes, and when they step aside."""

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.eager.programs import Program, _Table, eager_program

A = qnp.asarray(np.arange(-6, 6, dtype=np.float32).reshape(3, 4))
V = qnp.asarray(np.array([1, 2, 3, 4], np.float32))
I = qnp.asarray(np.arange(12, dtype=np.int32).reshape(3, 4))

CALLS = [
    ("add", 2, (A, V), {}),
    ("floor_divide", 2, (A, V), {}),
    ("floor_divide", 2, (I, 3), {}),
    ("divmod", 2, (A, 2.5), {}),
    ("where", 3, (I > 4, A, 0), {}),
    ("mean", 1, (A,), {"axis": 1, "keepdims": True}),
    ("mean", 1, (I,), {}),
    ("matmul", 2, (A, V), {}),
    ("std", 1, (A, 0), {}),
    ("transpose", 1, (A,), {}),
    ("linspace", 2, (qnp.float32(0), 1.0, 5), {}),
]


def counted(f, operands):
    calls = []

    def g(*args, **kwargs):
        calls.append(args)
        return f(*args, **kwargs)

    return eager_program(operands)(g), calls


@pytest.mark.parametrize(("name", "operands", "args", "kwargs"), CALLS)
def test_a_program_computes_what_the_function_does(name, operands, args, kwargs):
    f = getattr(qnp, name)
    g, calls = counted(getattr(f, "__wrapped__", f), operands)
    want = f(*args, **kwargs)
    for _ in range(2):
        got = g(*args, **kwargs)
        for x, y in zip(got, want) if isinstance(want, tuple) else [(got, want)]:
            assert (x.dtype, x.shape, x.weak_type) == (y.dtype, y.shape, y.weak_type)
            np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-6)
            assert not np.asarray(x).flags.writeable
    assert len(calls) == 1  # traced once, then run as a program


def test_the_key_holds_dtypes_weak_types_statics_and_options():
    g, calls = counted(lambda x, y, axis=None: qnp.sum(x + y, axis), 2)
    for args in [(A, 1), (A, 1.0), (A, qnp.float32(1)), (I, 1), (A, 1, 0), (A, 1, 1), (A, True)]:
        assert np.allclose(g(*args), qnp.sum(args[0] + args[1], *args[2:]))
    assert len(calls) == 7
    with quire.config.override(numpy_rank_promotion="raise"):
        with pytest.raises(ValueError, match="numpy_rank_promotion"):
            g(A, V)
    assert np.allclose(g(A, V), np.sum(np.asarray(A) + np.asarray(V)))


def test_functions_that_cannot_be_traced_for_the_arguments_run_themselves():
    g, calls = counted(qnp.nonzero, 1)
    for _ in range(2):
        assert g(V)[0].tolist() == [0, 1, 2, 3]
    assert len(calls) == 3  # once more to find out
    h, _ = counted(lambda x: qnp.concatenate([x, qnp.zeros(3)], axis=1), 1)
    with pytest.raises(TypeError, match="quire.numpy.concatenate"):
        h(A)


def test_inside_a_trace_the_function_itself_is_called():
    g, calls = counted(lambda x: qnp.sin(x) * 2, 1)
    assert "sin" in str(quire.make_jaxpr(g)(1.0))
    assert float(quire.grad(g)(0.0)) == 2.0
    assert len(calls) == 2


def test_a_result_that_is_a_view_of_an_argument_does_not_change_with_it():
    source = np.ones((2, 3), np.float32)
    x = qnp.asarray(source)
    g, _ = counted(lambda x: x.T, 1)
    view = g(x)
    source[:] = 5
    assert np.all(np.asarray(view) == 1) and np.all(np.asarray(x) == 1)


def test_a_loop_is_not_an_eager_program():
    def f(x):
        return quire.lax.fori_loop(0, 3, lambda i, y: y * 2, x)

    table = _Table(f, 1)
    table.make("key", (V,), {})
    assert table.programs == {"key": None}
    table = _Table(qnp.exp, 1)
    table.make("key", (V,), {})
    assert isinstance(table.programs["key"], Program)
