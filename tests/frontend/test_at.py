"""`.at[]`: dtype rules, modes, repeated indices, divide, power, apply, errors. (Index forms: test_indexing.py.)"""

from __future__ import annotations

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import quire
import quire.numpy as qnp

from .numpy_cases import same


@pytest.mark.parametrize("how", ["add", "subtract", "multiply", "min", "max"])
def test_repeated_indices_combine(how):
    x, i, v = np.arange(1.0, 6.0, dtype=np.float32), np.array([1, 1, 3, 1]), np.array([2.0, 3.0, 4.0, 0.5], np.float32)
    got = getattr(qnp.asarray(x).at[i], how)(v)
    np.testing.assert_allclose(got, getattr(jnp.asarray(x).at[i], how)(v), rtol=1e-6)


@pytest.mark.parametrize("how", ["divide", "power", "mul"])
def test_other_updates(how):
    for dtype in (np.float32, np.int32):
        x, i = np.arange(1, 6).astype(dtype), np.array([1, 3])
        if how in ("power", "pow") and dtype is np.int32:
            continue
        got = getattr(qnp.asarray(x).at[i], how)(2)
        np.testing.assert_allclose(got, getattr(jnp.asarray(x).at[i], how)(2), rtol=1e-6)


def test_apply():
    x = np.arange(6, dtype=np.float32)
    for index in (2, slice(1, 4), np.array([0, 5, 9]), (slice(None, None, 2),)):
        got = qnp.asarray(x).at[index].apply(lambda v: v * 10 + 1)
        np.testing.assert_allclose(got, jnp.asarray(x).at[index].apply(lambda v: v * 10 + 1))


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "bool", "float16", "complex64"])
@pytest.mark.parametrize("value", [1, 2.5, True, 1j, np.float32(1.5), np.int8(3)], ids=repr)
def test_dtype_rule_is_jax(dtype, value):
    if dtype == "bool" and value == 1j:
        pytest.skip("JAX converts complex to bool by the real part, quire by NumPy's rule")
    x = np.array([1, 0, 2]).astype(dtype)

    def run(asarray):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            out = asarray(x).at[1].set(value)
        return out, any(issubclass(w.category, FutureWarning) for w in seen)

    got, want = run(qnp.asarray), run(jnp.asarray)
    assert got[1] == want[1], "one warns, the other does not"
    assert not same(got[0], want[0])


def test_warning_says_what_to_do():
    with pytest.warns(
        FutureWarning, match=r"cannot safely cast value from dtype=float32 to dtype=int32.*astype\('int32'\)"
    ):
        qnp.arange(3).at[0].set(1.5)


def test_the_array_is_not_changed():
    x = qnp.zeros(3)
    y = x.at[0].set(1.0)
    assert x.tolist() == [0, 0, 0] and y.tolist() == [1, 0, 0]


def test_wrap_negative_indices():
    x = np.arange(4.0, dtype=np.float32)
    np.testing.assert_array_equal(qnp.asarray(x).at[np.array([-1])].set(9.0, wrap_negative_indices=False), x)


@pytest.mark.parametrize("how", ["add", "set", "max", "subtract"])
def test_derivatives_of_updates_of_an_empty_array(how):
    """All are dropped, so nothing depends on them; JAX refuses to read back what was written."""
    i, v = np.array([0, 3]), np.ones((2, 4), np.float32)

    def f(v):
        return (getattr(qnp.zeros((0, 4)).at[i], how)(v, mode="drop") ** 2).sum()

    np.testing.assert_array_equal(quire.jit(quire.grad(f))(v), np.zeros_like(v))
    assert quire.jvp(f, (v,), (v,))[1] == 0


def test_errors():
    x = qnp.zeros((2, 3))
    with pytest.raises(
        ValueError,
        match=r"Incompatible shapes for broadcasting: the value f32\[4\] and the indexed elements of shape \(3,\)",
    ):
        x.at[0].set(qnp.ones(4))
    with pytest.raises(TypeError, match=r"x.at\[...\].set: unknown argument 'modes': expected mode"):
        x.at[0].set(1, modes="clip")
    with pytest.raises(ValueError, match="unknown index mode 'raise': expected clip, fill, drop or promise_in_bounds"):
        x.at[0].set(1.0, mode="raise")


def test_compiled_updates_agree_with_jax():
    def f(x, i, v, m):
        return [
            x.at[i].set(v), x.at[i].add(v), x.at[i].multiply(v), x.at[i].min(v), x.at[i].max(v), x.at[i].divide(v), x.at[m].set(v),
            x.at[i].get(mode="fill", fill_value=-1), x.at[i].set(v, mode="clip"), x.at[i].apply(lambda a: a * 2),
        ]  # fmt: skip

    x, v = np.arange(12, dtype=np.float32).reshape(4, 3), np.float32(2.5)
    i, m = np.array([0, -1, 7]), np.int32(2)
    got = quire.jit(f)(x, i, v, m)
    import jax

    for g, w in zip(got, jax.jit(f)(jnp.asarray(x), i, v, m), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-6)
