"""docs/differences.md: what stays different from JAX, held as it is."""

import numpy as np
import pytest

import quire
import quire.numpy as qnp
import quire.scipy.linalg as sl
from quire import lax


def equations(f, *args):
    return [e.primitive.name for e in quire.make_jaxpr(f)(*args).eqns]


def test_structures_print_as_optree_does():
    structure = quire.tree_util.tree_structure({"a": [1, 2]})
    assert repr(structure) == "PyTreeSpec({'a': [*, *]})"
    assert structure == quire.tree_util.tree_structure({"a": [3, 4]})


def test_sums_of_half_precision_numbers_are_one_equation():
    assert equations(qnp.sum, qnp.ones(3, "float16")) == ["reduce_sum"]
    # In float16 alone the sum would stop at 2048.
    assert float(qnp.sum(qnp.ones(4096, "float16"))) == 4096.0


def test_keys_enter_a_jaxpr_as_words():
    (aval,) = quire.make_jaxpr(quire.random.bits)(quire.random.key(0)).in_avals
    assert (aval.shape, aval.dtype) == ((2,), np.uint32)


def test_poisson_takes_keys_of_every_generator():
    assert quire.random.poisson(quire.random.key(0, impl="rbg"), 3.0, (4,)).shape == (4,)


def test_large_unsigned_indices_are_behind_the_array():
    x, i = np.arange(5, dtype=np.float32), np.array([2**32 - 1, 2**31, 2, 7], np.uint32)
    for f in (lambda f: f, quire.jit):
        np.testing.assert_array_equal(f(lambda x, i: qnp.asarray(x).at[i].get(mode="clip"))(x, i), [4, 4, 2, 4])
        np.testing.assert_array_equal(f(lambda x, i: qnp.asarray(x).at[i].add(1, mode="clip"))(x, i), [0, 1, 3, 3, 7])


def test_samples_have_fewer_than_2_to_the_32_elements():
    with pytest.raises(ValueError, match=r"at most 2\*\*32 - 1 are supported"):
        quire.eval_shape(lambda: quire.random.normal(quire.random.key(0), (1 << 33,)))


def test_64_bits_are_narrowed_with_a_warning():
    with pytest.warns(UserWarning):
        assert qnp.zeros(2, "int64").dtype == np.int32


def test_rsf2csf_of_schur_forms():
    a = np.array([[1.0, 2.0, 0.5], [-3.0, 1.0, 0.2], [0.1, 0.4, 2.0]], np.float32)
    t, z = sl.schur(qnp.asarray(a))
    t, z = sl.rsf2csf(t, z)
    np.testing.assert_allclose(z @ t @ z.conj().T, a, atol=1e-5)
    np.testing.assert_array_equal(np.tril(t, -1), 0)


def test_complete_qr_turns_only_what_it_must():
    a, da = np.array([[1.0, 2.0], [3.0, 5.0], [5.0, 7.5], [1.0, 0.5]], np.float32), np.ones((4, 2), np.float32)
    (q, _), (dq, _) = quire.jvp(lambda a: qnp.linalg.qr(a, mode="complete"), (a,), (da,))
    np.testing.assert_allclose((q.T @ dq)[2:, 2:], 0, atol=1e-5)


def test_compiled_programs_agree_in_all_but_the_last_places():
    def f(x):
        return (x + x) * x - x * x

    x = qnp.asarray(np.linspace(0.5, 2, 64), "bfloat16")
    np.testing.assert_allclose(np.float32(quire.jit(f)(x)), np.float32(f(x)), rtol=2e-2)


def test_other_generators_are_refused():
    with pytest.raises(ValueError, match="unknown generator 'philox4x32', expected one of 'threefry2x32', 'rbg'"):
        quire.random.key(0, impl="philox4x32")


def test_64_bits_may_be_errors():
    with quire.config.override(explicit_x64_dtypes="error"):
        with pytest.raises(ValueError, match="Explicitly requested dtype int64 of quire.numpy.zeros is not available"):
            qnp.zeros(2, "int64")
        assert qnp.zeros(2, int).dtype == np.int32
    with pytest.raises(ValueError, match="explicit_x64_dtypes: got 'never', expected one of warn, error, allow"):
        quire.config.update("jax_explicit_x64_dtypes", "never")


def test_what_rules_of_vmap_return_is_checked():
    f = quire.custom_batching.custom_vmap(lambda x: qnp.sin(x))
    f.def_vmap(lambda size, batched, xs: (qnp.sum(xs), True))
    with pytest.raises(TypeError, match=r"the rule returned f32\[\] as result 0, declared batched; expected f32\[3\]"):
        quire.vmap(f)(qnp.arange(3.0))
    # JAX refuses to differentiate such a function in reverse.
    assert round(float(quire.grad(f)(0.5)), 5) == round(float(np.cos(0.5)), 5)


def test_einsum_takes_paths_that_contract_many():
    x = qnp.ones((2, 3))
    assert qnp.einsum("ij,ik,il->jkl", x, x, x, optimize=[(0, 1, 2)]).shape == (3, 3, 3)


def test_a_platform_is_a_place():
    assert quire.device_put(qnp.arange(3), "cpu").device == quire.devices()[0]


def test_pmap_takes_more_slices_than_there_are_devices():
    shares = quire.pmap(lambda x: x / quire.lax.psum(x, "i"), axis_name="i")(qnp.ones(64))
    np.testing.assert_allclose(shares, np.full(64, 1 / 64), rtol=1e-6)


def test_there_may_be_more_devices_later():
    n = len(quire.devices("cpu"))
    with quire.config.override(num_cpu_devices=n + 1):
        assert len(quire.devices("cpu")) == n + 1


def test_arguments_that_are_returned_share_their_memory():
    x = qnp.arange(3)
    assert quire.jit(lambda x: x)(x).unsafe_buffer_pointer() == x.unsafe_buffer_pointer()


def test_many_scalars_together_are_loaded():
    """An adjoint solve at 70 times, all batched: IREE joins its scalar sums, of more arrays than a dispatch can be given."""
    from quire.experimental.ode import odeint

    @quire.jit
    def last(x):
        return odeint(lambda y, t: -x * y, 1.0, np.arange(0, 7, 0.1))[-1]

    rates = np.linspace(0.1, 0.5, 4, dtype=np.float32)
    values, slopes = quire.vmap(quire.value_and_grad(last))(rates)
    np.testing.assert_allclose(values, np.exp(-6.9 * rates), rtol=1e-4)
    np.testing.assert_allclose(slopes, -6.9 * np.exp(-6.9 * rates), rtol=1e-3)


def test_indices_outside_are_clamped():
    assert int(qnp.arange(3)[5]) == 2


def test_bfgs_takes_real_numbers():
    import quire.scipy.optimize as so

    with pytest.raises(TypeError, match="x0 must be real floats"):
        so.minimize(lambda x: qnp.abs(x).sum(), qnp.ones(2, "complex64"), method="BFGS")


def test_left_eigenvectors_have_no_derivative():
    with pytest.raises(NotImplementedError, match="left eigenvectors"):
        quire.jvp(
            lambda a: lax.linalg.eig(a, compute_left_eigenvectors=True, enable_eigvec_derivs=True),
            (np.eye(2, dtype=np.float32),),
            (np.ones((2, 2), np.float32),),
        )


def test_numbers_of_numpy_keep_their_64_bits_where_these_are_allowed():
    with quire.config.override(explicit_x64_dtypes="allow"):
        assert (qnp.ones(2) * np.float64(2)).dtype == np.float64
        assert (qnp.ones(2) * 2.0).dtype == np.float32
