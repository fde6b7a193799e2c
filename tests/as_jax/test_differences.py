"""docs/differences.md: what stays different from JAX, held as it is."""

import numpy as np
import pytest

import quire
import quire.numpy as qnp
import quire.scipy.linalg as sl
from quire import lax
from quire.scipy import special
from quire.scipy.spatial import transform


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


def test_indices_beyond_int32_are_outside():
    with quire.config.override(enable_x64=True):
        x, i = qnp.arange(5.0), np.array([2**33, 2**32 + 1, -(2**40)])
        for f in (lambda f: f, quire.jit):
            np.testing.assert_array_equal(f(lambda x, i: x.at[i].add(1))(x, i), np.arange(5.0))
            np.testing.assert_array_equal(f(lambda x, i: x.at[i].get(mode="fill", fill_value=-1))(x, i), [-1, -1, -1])


def test_indices_of_switch_beyond_int32_are_clamped():
    branches = [lambda: 1, lambda: 2, lambda: 3]
    with quire.config.override(enable_x64=True):
        i = np.array([2**31, 2**32 - 1, 1], np.uint32), np.array([2**33, -(2**33), 1])
        for f in (lambda f: f, quire.jit):
            assert [[f(lambda k: lax.switch(k, branches))(k).item() for k in ks] for ks in i] == [[3, 3, 2], [3, 1, 2]]
            assert [f(quire.vmap(lambda k: lax.switch(k, branches)))(ks).tolist() for ks in i] == [[3, 3, 2], [3, 1, 2]]


def test_subnormal_numbers_are_kept_in_eager_calls():
    x = np.array([1e-40], np.float32)
    assert qnp.multiply(x, 2)[0] > 0 and quire.jit(lambda x: x * 2)(x)[0] == 0
    assert qnp.power(0.0, x)[0] == 0 and quire.jit(qnp.power)(np.zeros(1, np.float32), x)[0] == 1


def test_there_is_no_mass_between_integers():
    from quire.scipy import stats

    assert stats.geom.pmf(0.5, 0.3) == stats.binom.pmf(1.5, 3, 0.3) == stats.nbinom.pmf(0.5, 3, 0.3) == 0
    assert stats.bernoulli.pmf(0.5, 0.3) == stats.betabinom.pmf(0.5, 3, 1.0, 2.0) == 0


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


def test_gradients_by_numbers_of_python_are_of_weak_type():
    for f in (lambda x: x**2.5, lambda x: qnp.sort(qnp.stack([x, x]))[0], lambda x: qnp.stack([x, x]).at[0].mul(x)[0]):
        assert (quire.grad(f)(1.5) * qnp.ones(2, "float16")).dtype == np.float16


def test_jacobians_of_and_by_bools():
    of, by = quire.jacfwd(lambda x: x > 0)(1.0), quire.jacrev(lambda x: x * 2.0, allow_int=True)(np.array([True]))
    assert (of.dtype, of.shape, by.dtype, by.shape) == (np.bool_, (), np.bool_, (1, 1)) and not of and not by.any()


def test_there_are_no_jacobians_of_and_by_keys():
    for wrong in (
        lambda: quire.jacfwd(lambda x: quire.random.key(0))(1.0),
        lambda: quire.jacrev(quire.random.normal, allow_int=True)(quire.random.key(0)),
    ):
        with pytest.raises(TypeError, match="key<fry>"):
            wrong()


def test_bfgs_takes_real_numbers():
    import quire.scipy.optimize as so

    with pytest.raises(TypeError, match="x0 must be real floats"):
        so.minimize(lambda x: qnp.abs(x).sum(), qnp.ones(2, "complex64"), method="BFGS")


def test_numbers_of_numpy_keep_their_64_bits_where_these_are_allowed():
    with quire.config.override(explicit_x64_dtypes="allow"):
        assert (qnp.ones(2) * np.float64(2)).dtype == np.float64
        assert (qnp.ones(2) * 2.0).dtype == np.float32


def test_numbers_of_python_take_an_arrays_dtype_in_lax():
    assert lax.mul(qnp.ones(2, "float16"), 2).dtype == np.float16 and lax.add(qnp.ones(2, "int8"), 1).dtype == np.int8
    for wrong in (2.5, True):
        with pytest.raises(TypeError):
            lax.mul(qnp.ones(2, "int8"), wrong)


def test_ties_of_cumulative_extremes_share_a_cotangent():
    x = np.array([2, 1, 2, 2, 0, 3, 3, 3], np.float32)
    for name in ("cummax", "cummin"):
        rows = quire.jacrev(lambda x, name=name: getattr(quire.lax, name)(x))(x)
        np.testing.assert_allclose(np.sum(rows, axis=1), 1)
        extreme = getattr(np, "maximum" if name == "cummax" else "minimum").accumulate(x)
        assert all((np.asarray(row)[x != best] == 0).all() for row, best in zip(rows, extreme))


def test_the_first_of_equal_elements_by_rows_is_the_extreme_of_a_window():
    x, t = np.zeros((4, 5), np.float32), np.arange(20, dtype=np.float32).reshape(4, 5)
    x[0, 0] = -1
    for name, sign in (("max", 1), ("min", -1)):
        for shape in ((2, 2), (2, 3), (3, 2)):

            def f(x, name=name, shape=shape, sign=sign):
                start = np.float32(-sign * np.inf)
                return quire.lax.reduce_window(x, start, getattr(quire.lax, name), shape, (1, 1), "SAME")

            (_, tangent) = quire.jvp(f, (sign * x,), (t,))
            rows, columns = (((n - 1) // 2) for n in shape)
            i, j = np.indices(x.shape)
            want = t[np.maximum(i - rows, 0), np.maximum(j - columns, 0)]
            want[: rows + 1, : columns + 1] = 1  # there the first element is smaller, and the next of its row counts
            np.testing.assert_array_equal(tangent, want)


def test_objects_that_convert_are_operands_of_numpys_functions():
    class Convertible:
        def __jax_array__(self):
            return qnp.arange(3.0)

    np.testing.assert_allclose(qnp.sin(Convertible()), np.sin(np.arange(3.0)), rtol=1e-6)


def test_callbacks_are_given_numpy_arrays_and_their_errors_are_their_own():
    seen = []
    shape = quire.ShapeDtypeStruct((), "float32")
    quire.jit(lambda x: quire.pure_callback(lambda a: seen.append(type(a)) or a, shape, x))(
        np.float32(1)
    ).block_until_ready()
    assert set(seen) == {np.ndarray}
    with pytest.raises(ZeroDivisionError):
        quire.jit(lambda: quire.pure_callback(lambda: 1 // 0, shape))().block_until_ready()


def test_donated_arguments_that_no_result_can_use_are_deleted():
    x = qnp.arange(3.0)
    with pytest.warns(UserWarning, match="donated buffers were not usable"):
        quire.jit(lambda x: x.sum(), donate_argnums=0)(x)
    assert x.is_deleted() and repr(x) == "Array(<deleted>, shape=(3,), dtype=float32)"


def test_an_array_that_is_given_twice_is_copied_before_it_is_donated():
    x = qnp.arange(3.0)
    np.testing.assert_array_equal(quire.jit(lambda a, b: a + b, donate_argnums=0)(x, x), [0, 2, 4])


def test_rules_close_over_traced_values():
    def f(x):
        @quire.custom_vjp
        def g(y):
            return x * y

        g.defvjp(lambda y: (g(y), None), lambda _, ct: (ct * x,))
        return quire.grad(g)(3.0)

    assert float(quire.jit(f)(2.0)) == 2.0
    np.testing.assert_array_equal(
        quire.vmap(lambda x: quire.custom_jvp(lambda y: x * y).fun(2.0))(np.arange(3.0)), [0, 2, 4]
    )


def test_rules_that_return_numbers():
    f = quire.custom_jvp(lambda x: x)
    f.defjvp(lambda primals, tangents: (2.0, 3.0))
    assert [type(x) for x in quire.jvp(f, (1.0,), (1.0,))] == [type(qnp.ones(()))] * 2


def test_dictionaries_with_keys_that_have_no_order():
    assert sorted(quire.tree_util.tree_leaves({"b": 1, 1: 2})) == [1, 2]
    assert float(quire.jit(lambda d: d["b"] - d[1])({"b": 5.0, 1: 2.0})) == 3.0


def test_names_that_are_not_there_yet():
    for module, name in ((qnp, "float6_e2m3fn"), (lax, "scaled_dot"), (quire.experimental.sparse, "nm_spmm")):
        with pytest.raises(AttributeError):
            getattr(module, name)


def test_slices_of_divided_arrays_are_divided_still():
    with quire.config.override(num_cpu_devices=4):
        mesh = quire.make_mesh((4,), "x", (quire.sharding.AxisType.Auto,))
        x = quire.device_put(qnp.arange(16.0), quire.NamedSharding(mesh, quire.P("x")))
        assert x[::2].sharding.spec == x[:8].sharding.spec == quire.P("x") and x[:6].sharding.spec == quire.P()


def test_indices_of_arrays_without_elements_are_the_fill_value():
    assert [x.tolist() for x in qnp.nonzero(qnp.zeros((2, 0)), size=2, fill_value=(7, 2.5))] == [[7, 7], [2.5, 2.5]]


def test_integers_are_full_of_what_they_hold():
    for v, want in ((np.nan, 0), (np.inf, 255), (-1.5, 0), (2.7, 2)):
        assert quire.jit(lambda v=v: qnp.full((1,), v, "uint8"))().tolist() == [want]
        assert quire.jit(lambda v=v: lax.full((1,), v, "uint8"))().tolist() == [want]


def test_numbers_that_count_are_integers():
    key = quire.random.key(0)
    for call, text in (
        (lambda: qnp.roll(qnp.arange(4), 1.5), r"quire.numpy.roll: shift must be integers, got f32\[\]"),
        (lambda: quire.jit(lambda i: qnp.roll(qnp.arange(4), i))(1.5), "quire.numpy.roll: shift must be integers"),
        (lambda: quire.random.randint(key, (), 0.5, 7), "minval and maxval must be integers"),
        (lambda: quire.random.fold_in(key, 1.5), "data must be an integer scalar"),
        (lambda: quire.random.choice(key, 1.5), "expected an integer or an array"),
    ):
        with pytest.raises(TypeError, match=text):
            call()


def test_the_whole_range_of_an_integer_is_drawn_from():
    for d, n in (("int32", 2**31), ("uint32", 2**32)):
        assert int(quire.random.randint(quire.random.key(0), (64,), 0, n, d).max()) > n * 7 // 8


def test_parameters_broadcast_to_the_shape_of_weibull_min():
    with pytest.raises(ValueError, match="parameters do not broadcast"):
        quire.random.weibull_min(quire.random.key(0), qnp.ones(2), qnp.ones(2))


def test_parts_may_be_longer_than_the_array():
    assert qnp.extract(qnp.array([True, False]), qnp.array([5, 6]), size=3, fill_value=1).tolist() == [5, 1, 1]


def test_complex_numbers_have_an_order_and_integers_are_quantiles():
    assert (
        int(qnp.argmax(qnp.array([1 + 2j, 1 + 3j, 0]))) == int(qnp.nanargmax(qnp.array([1 + 2j, 1 + 3j, np.nan]))) == 1
    )
    assert float(qnp.quantile(qnp.arange(4.0), 1)) == 3.0


def test_motions_go_on_after_the_last_time():
    path = transform.Slerp.init(qnp.arange(3.0), transform.Rotation.from_euler("z", qnp.array([[0.0], [0.5], [1.5]])))
    np.testing.assert_allclose(path(qnp.array([-1.0, 2.5, 3.0])).as_rotvec()[:, 2], [-0.5, 2.0, 2.5], atol=1e-5)


def test_products_of_complex_numbers_are_not_real():
    x = np.ones((2, 2), np.complex64)
    for dtype in ("float32", "int32"):
        with pytest.raises(TypeError, match=f"preferred_element_type {dtype} cannot hold products of dtype complex64"):
            qnp.matmul(x, x, preferred_element_type=dtype)


def test_products_of_floats_as_integers_have_no_tangents():
    x = np.eye(2, dtype=np.float32)
    tangent = quire.jvp(lambda x: qnp.matmul(x, x, preferred_element_type="int32"), (x,), (x,))[1]
    assert tangent.dtype == quire.dtypes.float0


def test_tri_is_of_the_default_float():
    assert qnp.tri(2).dtype == np.float32
    with quire.config.override(enable_x64=True):
        assert qnp.tri(2).dtype == np.tri(2).dtype == np.float64


def test_carries_are_promoted_until_nothing_changes():
    v = np.array([1.5, 2.5], np.float32)
    first, second = lax.scan(lambda c, x: ((c[1], c[0] + x), None), (0, 0), v)[0]
    assert (first.dtype, first.item(), second.dtype, second.item()) == (np.float32, 1.5, np.float32, 2.5)


def test_bounds_and_indices_may_be_of_several_integer_dtypes():
    three, two = np.uint8(3), np.uint8(2)
    assert lax.fori_loop(0, three, lambda i, x: x + i, 0).item() == 3
    assert quire.jit(lambda a, b: lax.fori_loop(a, b, lambda i, x: x + i, 0))(0, three).item() == 3
    x = np.arange(12).reshape(3, 4)
    for f in (lambda f: f, quire.jit):
        got = f(lambda i, j: lax.dynamic_slice(x, (i, j), (1, 2)))(np.int32(1), two)
        np.testing.assert_array_equal(got, [[6, 7]])
        got = f(lambda i, j: lax.dynamic_update_slice(x, np.zeros((1, 2), x.dtype), (i, j)))(np.int32(1), two)
        np.testing.assert_array_equal(got, [[0, 1, 2, 3], [4, 5, 0, 0], [8, 9, 10, 11]])


def test_incomplete_gamma_functions_have_no_limit_at_infinity():
    assert np.isnan(special.gammainc(np.inf, np.inf)) and np.isnan(special.gammaincc(np.inf, np.inf))
    assert (special.gammainc(1.0, np.inf).item(), special.gammainc(np.inf, 1.0).item()) == (1.0, 0.0)
