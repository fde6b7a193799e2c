"""What JAX refuses and quire once took, and the like: found by JAX's own test files, each compared with JAX itself."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quire
from quire import lax
from quire.sharding import Mesh, PartitionSpec

jax = pytest.importorskip("jax")

X = np.arange(3, dtype=np.float32)


class Convertible:
    """Gives an array where one is asked for."""

    def __jax_array__(self) -> Any:
        return quire.numpy.arange(4)


def _of_parts(api: Any, sharding: Any) -> Any:
    return api.jit(lambda x: api.make_array_from_single_device_arrays(x.shape, sharding, [x]))(X)


# Each raises an error of the same builtin class in both.
REFUSED: dict[str, Callable[[Any], Any]] = {
    "a bool beside numbers": lambda api: api.lax.add(api.numpy.asarray(X), True),
    "a bool first": lambda api: api.lax.mul(True, api.numpy.asarray(X)),
    "a bool beside integers": lambda api: api.lax.max(api.numpy.arange(3), True),
    "a bool compared": lambda api: api.lax.eq(api.numpy.asarray(X), True),
    "a bool beside bits": lambda api: api.lax.bitwise_and(api.numpy.arange(3), True),
    "padding with a bool": lambda api: api.lax.pad(api.numpy.asarray(X), True, [(1, 1, 0)]),
    "an array for a dtype": lambda api: api.numpy.zeros(3, dtype=api.numpy.arange(3)),
    "an array for a dtype, traced": lambda api: api.jit(lambda x: api.numpy.zeros(3, dtype=x))(X),
    "astype of an array": lambda api: api.numpy.asarray(X).astype(api.numpy.arange(3)),
    "__jax_array__ given to jit": lambda api: api.jit(lambda x: x)(Convertible()),
    "__jax_array__ given to vmap": lambda api: api.vmap(lambda x: x)(Convertible()),
    "__jax_array__ returned": lambda api: api.jit(lambda x: Convertible())(1),
    "__jax_array__ carried": lambda api: api.lax.scan(lambda c, x: (c, x), Convertible(), X),
    "__jax_array__ put": lambda api: api.device_put(Convertible()),
    "parts that are traced": lambda api: _of_parts(api, api.numpy.asarray(X).sharding),
    "an object for an array": lambda api: api.jit(lambda x: x)(object()),
}


def raised(f: Callable[[], Any]) -> type | None:
    """The builtin class of the error."""
    try:
        f()
    except Exception as error:
        return next(c for c in type(error).__mro__ if c.__module__ == "builtins")
    return None


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_by_jax(name: str) -> None:
    assert raised(lambda: REFUSED[name](quire)) is raised(lambda: REFUSED[name](jax)) is not None


def test_numbers_and_bools_that_go_with_arrays() -> None:
    assert lax.add(X, 1.0).dtype == lax.add(X, 1).dtype == np.float32
    np.testing.assert_array_equal(lax.bitwise_or(X > 1, True), True)


def test_parts_of_callbacks_are_no_tracers() -> None:
    sharding = quire.numpy.asarray(X).sharding
    with pytest.raises(quire.errors.UnexpectedTracerError, match="make_array_from_callback"):
        quire.jit(lambda x: quire.make_array_from_callback(x.shape, sharding, lambda i: x[i]))(X)


def test_an_array_as_a_numpy_dtype_is_deprecated() -> None:
    for api in (quire, jax):
        with pytest.warns(DeprecationWarning, match="Implicit conversion of an array to a dtype"):
            assert np.dtype(api.numpy.arange(4)) == np.int32


SIZES: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda api: api.numpy.zeros(np.int64(3)),
    "full": lambda api: api.numpy.full(np.int32(3), 1.0),
    "like": lambda api: api.numpy.ones_like(X, shape=np.max(np.array([0, 2])) + 1),
    "broadcast_to": lambda api: api.numpy.broadcast_to(1, np.int64(3)),
    "tile": lambda api: api.numpy.tile(api.numpy.ones(2), np.int64(3)),
    "resize": lambda api: api.numpy.resize(api.numpy.ones(2), np.int64(3)),
    "weights without axes": lambda api: api.nn.initializers.variance_scaling(1.0, "fan_in", "normal", (), ())(
        api.random.key(0), ()
    ),
    "weights of one axis": lambda api: api.nn.initializers.variance_scaling(1.0, "fan_avg", "uniform", (), -1)(
        api.random.key(0), (4,)
    ),
}


AXES: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda api, n: api.numpy.sum(X, axis=n(0)),
    "split": lambda api, n: api.numpy.split(X, n(3))[1],
    "moveaxis": lambda api, n: api.numpy.moveaxis(W, n(0), n(1)),
    "expand_dims": lambda api, n: api.numpy.expand_dims(X, n(1)),
    "squeeze": lambda api, n: api.numpy.squeeze(X[None], n(0)),
    "flip": lambda api, n: api.numpy.flip(X, n(0)),
    "softmax": lambda api, n: api.nn.softmax(X, axis=n(0)),
    "static": lambda api, n: api.jit(lambda x, y: x * y, static_argnums=n(1))(X, 2),
    "random.split": lambda api, n: api.random.key_data(api.random.split(api.random.key(0), n(3))),
}
W = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("name", AXES)
def test_axes_that_are_numbers_of_numpy(name: str) -> None:
    for number in (np.int64, np.int32, np.array):
        np.testing.assert_allclose(AXES[name](quire, number), AXES[name](jax, int), rtol=1e-6)


@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_are_numbers_of_numpy(name: str) -> None:
    np.testing.assert_allclose(SIZES[name](quire), SIZES[name](jax), rtol=1e-6)


def test_keys_of_paths_hash_apart() -> None:
    for api in (quire, jax):
        index, place = api.tree_util.FlattenedIndexKey(1), api.tree_util.SequenceKey(1)
        assert hash(index) != hash(place) and hash(index) == hash(api.tree_util.FlattenedIndexKey(1))


def test_equal_meshes_and_specs_are_one_object() -> None:
    devices = quire.devices()[:1]
    mesh, spec = Mesh(devices, "x"), PartitionSpec(None, "x", ("y", "z"))
    assert Mesh(np.array(devices), ("x",)) is mesh is pickle.loads(pickle.dumps(mesh))
    assert PartitionSpec((), ("x",), ["y", "z"]) is spec is pickle.loads(pickle.dumps(spec)) is copy.deepcopy(spec)
    assert Mesh(devices, "y") is not mesh and PartitionSpec(None, "x") is not spec
    assert PartitionSpec("x", unreduced={"y"}) is not PartitionSpec("x")


def test_a_mesh_whose_one_axis_is_named_by_a_text() -> None:
    for api in (quire, jax):
        assert api.make_mesh((1,), "data").axis_names == ("data",)


def test_arguments_that_a_program_does_not_take_stay() -> None:
    """Donated or not: nothing has written into their memory."""
    for api in (quire, jax):
        a, b, c = api.numpy.asarray(X), api.numpy.asarray(X + 1), api.numpy.asarray(X + 2)
        api.jit(lambda a, b, c: (b + 1, c), donate_argnums=(0, 1, 2))(a, b, c)
        assert (a.is_deleted(), b.is_deleted(), c.is_deleted()) == (False, True, True)
        np.testing.assert_array_equal(a, X)


def test_an_unused_argument_stays_while_the_program_is_compiled() -> None:
    a, b = quire.numpy.asarray(X), quire.numpy.asarray(X + 1)
    quire.compile(lambda a, b: b + 1, donate_argnums=(0, 1), tiered=True)(a, b)
    assert (a.is_deleted(), b.is_deleted()) == (False, True)


def test_a_struct_keeps_the_dtype_that_it_was_given() -> None:
    for api in (quire, jax):
        struct = api.ShapeDtypeStruct((2,), "float64")
        assert struct.dtype == np.float64 and repr(struct) == "ShapeDtypeStruct(shape=(2,), dtype=float64)"
        assert struct != api.ShapeDtypeStruct((2,), np.float32) and struct.update(shape=(3,)).dtype == np.float64
        assert api.eval_shape(lambda x: x, struct).dtype == np.float32


@pytest.mark.parametrize("right", [False, True])
def test_bins_that_are_complex(right: bool) -> None:
    x, bins = np.array([1 + 1j, 2, 1 - 2j], np.complex64), np.array([0, 1, 2, 3 + 1j], np.complex64)
    for b in (bins, bins[::-1], bins[:1]):
        np.testing.assert_array_equal(quire.numpy.digitize(x, b, right), jax.numpy.digitize(x, b, right))


def test_lowering_for_a_platform_by_jaxs_name() -> None:
    traced = quire.jit(lambda x: x * 2).trace(X)
    assert traced.lower(lowering_platforms=("cpu",)).as_text() == traced.lower(backend="cpu").as_text()
    with pytest.raises(NotImplementedError, match="expected one"):
        traced.lower(lowering_platforms=("cpu", "cuda"))


def test_traced_values_are_not_pickled() -> None:
    for api in (quire, jax):
        with pytest.raises(api.errors.ConcretizationTypeError):
            api.jit(pickle.dumps)(0)


def test_arrays_of_64_bits_are_narrowed_where_those_are_off() -> None:
    for api in (quire, jax):
        with api.enable_x64(True):
            stored = pickle.dumps(api.numpy.array(4.25, "float64"))
            assert pickle.loads(stored).dtype == np.float64
        restored = pickle.loads(stored)
        assert restored.dtype == restored.aval.dtype == np.float32 and float(restored) == 4.25


def test_options_of_debug_functions_in_a_call_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    for api in (quire, jax):
        seen: list[float] = []
        api.debug.print(ordered=True)("x: {x}, {n}", x=3, n=4)
        api.jit(lambda x, d=api.debug, s=seen: d.callback(ordered=True)(lambda v: s.append(float(v)), x))(2.0)
        api.effects_barrier()
        assert seen == [2.0] and capsys.readouterr().out == "x: 3, 4\n"
        for wrong in (
            lambda d=api.debug: d.print(ordered=True, a=42)("{a}"),
            lambda d=api.debug: d.callback(a=42)(print),
        ):
            with pytest.raises(TypeError, match="received unexpected arguments in the two-call form"):
                wrong()


def test_types_for_annotations_have_traced_values_as_members() -> None:
    typing = quire.typing
    assert typing.Array is quire.Array
    assert quire.jit(lambda x: isinstance(x, typing.Array) and isinstance(x, typing.ArrayLike))(1.0)
    assert (
        isinstance(quire.numpy.ones(2), typing.Array)
        and not isinstance(1.0, typing.Array)
        and isinstance(1.0, typing.ArrayLike)
    )
