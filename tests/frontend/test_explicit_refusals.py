"""What is said where types along explicit mesh axes do not fit, and where `out_sharding` is taken."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.arrays.explicit import divided_as_told
from quire.ir.avals import ShapedArray
from quire.ir.config import config
from quire.ir.errors import IndivisibleError, ShardingTypeError
from quire.sharding import AbstractMesh, AxisType, NamedSharding
from quire.sharding import PartitionSpec as P

A = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.fixture(autouse=True)
def mesh() -> Generator[Any]:
    with config.override(num_cpu_devices=8), quire.set_mesh(quire.make_mesh((4, 2), ("x", "y"))) as mesh:
        yield mesh


def on(spec: Any, value: Any = A) -> Any:
    return quire.device_put(value, spec)


def unreduced(*_: Any) -> Any:
    return qnp.dot(on(P(None, "y")), on(P("y"), A.T), out_sharding=P(unreduced={"y"}))


REDUCED = P(reduced={"x"})

CASES: list[tuple[Callable[..., Any], type[Exception], str]] = [
    (lambda: qnp.sin(unreduced()), NotImplementedError, r"unreduced rule for sin is not implemented: it is not linear. Take the sum"),
    (lambda: unreduced() + 1, ShardingTypeError, r"lhs is unreduced while rhs is not. `add` operation does not allow this"),
    (lambda: unreduced() * 2, ShardingTypeError, r"RHS should be reduced along the same axes LHS is unreduced on. Got lhs=f32\[8,8\]\{U:y\}"),
    (lambda: unreduced() * unreduced(), ShardingTypeError, r"`mul` cannot be unreduced since mul is bilinear"),
    (lambda: unreduced() @ A, ShardingTypeError, r"lhs or rhs passed to dot_general cannot be unreduced.*take the sum first"),
    (lambda: unreduced() + quire.reshard(A.repeat(2, 1), P(unreduced={"x"})), ShardingTypeError,
     r"lhs and rhs to `add` must be unreduced along the same mesh axes. Got lhs="),
    (lambda: qnp.concatenate([unreduced(), quire.reshard(A.repeat(2, 1), P(unreduced={"x"}))]), ShardingTypeError,
     r"All operands should be unreduced along the same mesh axes"),
    (lambda: on(REDUCED) + on(P()), ShardingTypeError, r"Inputs cannot be replicated on the same axes .* give quire.reshard"),
    (lambda: on(REDUCED) + on(P("x")), ShardingTypeError, r"Inputs cannot be sharded/varying on the same axes"),
    (lambda: on(REDUCED) + on(P(reduced={"y"})), ShardingTypeError, r"All inputs should be reduced across the same mesh axes"),
    (lambda: lax.scan(lambda c, _: (quire.reshard(c, P("x")), None), on(P("y")), None, length=2), TypeError,
     r"carry: takes f32\[8@y,4\], returns f32\[8@x,4\] \(one is divided otherwise: give quire.reshard\(x, P\('y', None\)\)"),
    (lambda: lax.while_loop(lambda c: c.sum() < 9, lambda c: quire.reshard(c, P()), on(P("y"))), TypeError,
     r"carry: takes f32\[8@y,4\], returns f32\[8,4\] \(one is divided otherwise"),
    (lambda: lax.cond(True, lambda a: a, lambda a: quire.reshard(a, P()), on(P("x"))), TypeError,
     r"true_fun returns f32\[8@x,4\], false_fun returns f32\[8,4\]"),
    (lambda: lax.scan(lambda c, x: (c, x), 0.0, on(P("x"))), ValueError, r"0th dimension of all xs should be replicated. Got P\('x', None\)"),
    (lambda: quire.vmap(lambda x, y: x + y)(on(P("x")), on(P("y"))), ValueError,
     r"sharded the same. Got inconsistent axis specs: x vs y of f32\[8@x,4\] along dimension 0"),
    (lambda: qnp.zeros((7,), out_sharding=P("x")), IndivisibleError, r"array axis 0 is partitioned 4 times, but the dimension size is 7"),
    (lambda: quire.jit(quire.vmap(lambda r: quire.debug.inspect_array_sharding(r, callback=print)))(A), NotImplementedError,
     r"f32\[4\] is a value of vmap of <lambda>, of which many may be made: ask for values of the compiled function itself"),
    (lambda: lax.ragged_all_to_all(A, A[0], A, A, A, A, axis_name="i"), TypeError, r"must hold rows of one shape and dtype"),
    (lambda: lax.ragged_all_to_all(A, A, A[0], A, A, A, axis_name="i"), ValueError, r"input_offsets must be integer type, got f32"),
    (lambda: lax.ragged_all_to_all(A, A, *[np.zeros((1, 1), int)] * 4, axis_name="i"), ValueError,
     r"input_offsets must be rank 1 with positive dimension size, but got shape \(1, 1\)"),
    (lambda: lax.ragged_all_to_all(A, A, *[np.zeros(2, int)] * 3, np.zeros(1, int), axis_name="i"), ValueError,
     r"offsets and sizes must have one length"),
    (lambda: quire.vmap(lambda x: lax.ragged_all_to_all(x, x, *[np.zeros(3, int)] * 4, axis_name="i"), axis_name="i")(A), ValueError,
     r"3 ranges cannot be shared out among the 8 slices"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(CASES)))
def test_refusals_say_what_to_do(case: int) -> None:
    f, kind, words = CASES[case]
    with pytest.raises(kind, match=words):
        f()


def test_a_value_of_another_mesh_is_refused() -> None:
    x = on(P("x"))
    with (
        quire.set_mesh(quire.make_mesh((8,), ("z",))),
        pytest.raises(
            ValueError, match=r"For primitive sin, context mesh .* should match the aval mesh .* of f32\[8@x,4\]"
        ),
    ):
        qnp.sin(x)


def test_types_divide_evenly_and_infer_needs_explicit_axes() -> None:
    mesh = AbstractMesh((2,), ("x",), (AxisType.Explicit,))
    with pytest.raises(IndivisibleError, match="partitioned 2 times, but the dimension size is 5"):
        ShapedArray((5, 2), np.dtype(np.int32), sharding=NamedSharding(mesh, P("x")))
    auto = quire.make_mesh((8,), ("d",), (AxisType.Auto,))
    with pytest.raises(
        TypeError, match="in_specs argument must be specified when the axes it maps are not all of type Explicit"
    ):
        quire.shard_map(lambda x: x, mesh=auto, out_specs=P("d"))(A)


def _unwrapped(f: Any) -> Any:
    while f is not None:
        yield f
        f = getattr(f, "__wrapped__", None)


def test_every_out_sharding_is_honoured() -> None:
    """A function that takes the argument and leaves it alone would give an array that lies elsewhere than it was told to."""
    modules = ("quire.numpy", "quire.lax", "quire.ops", "quire.numpy.linalg", "quire.nn.initializers", "quire.nn")
    own = {"rng_bit_generator", "auto_axes", "Initializer"}  # of one of two results; of functions; a protocol
    for module in map(importlib.import_module, modules):
        for name, f in vars(module).items():
            if callable(f) and not name.startswith("_") and name not in own and not inspect.isclass(f):
                try:
                    taken = "out_sharding" in inspect.signature(f).parameters
                except (TypeError, ValueError):
                    continue
                makes = name in ("zeros", "ones") and module.__name__.endswith("initializers")  # hand it on
                assert not taken or makes or any(g in divided_as_told for g in _unwrapped(f)), (
                    f"{module.__name__}.{name} takes out_sharding and ignores it"
                )


def test_samplers_and_bits_are_divided_as_told() -> None:
    key = quire.random.key(0)
    for name, f in vars(quire.random).items():
        if (
            inspect.isfunction(f)
            and "out_sharding" in inspect.signature(f).parameters
            and name in ("normal", "bits", "gamma", "permutation")
        ):
            args = {"gamma": (2.0, (8,)), "permutation": (8,)}.get(name, ((8,),))
            assert f(key, *args, out_sharding=P("x")).sharding.spec == P("x"), name
    bits = lax.rng_bit_generator(np.zeros(4, np.uint32), (8,), out_sharding=P("x"))[1]
    assert bits.sharding.spec == P("x")


def test_shards_of_a_sum_that_is_put_off_add_up() -> None:
    x = unreduced()
    assert not x.sharding.is_fully_replicated and str(quire.typeof(x)) == "float32[8,8]{U:y}"
    parts = [np.asarray(s.data) for s in x.addressable_shards[:2]]
    np.testing.assert_allclose(parts[0] + parts[1], A @ A.T)
    np.testing.assert_allclose(quire.reshard(x, P("x")), A @ A.T)


def test_ragged_exchange_is_the_one_of_the_manual() -> None:
    auto = quire.make_mesh((2,), ("d",), (AxisType.Auto,))
    data, out = np.array([1, 2, 2, 3, 4, 0], np.float32), np.zeros(8, np.float32)
    first, sizes = np.array([0, 1, 0, 1], np.int32), np.array([1, 2, 1, 1], np.int32)
    target, come = np.array([0, 0, 1, 2], np.int32), np.array([1, 1, 2, 1], np.int32)

    def exchange(*args: Any) -> Any:
        return lax.ragged_all_to_all(*args, axis_name="d")

    f = quire.shard_map(exchange, mesh=auto, in_specs=(P("d"),) * 6, out_specs=P("d"))
    args = (out, first, sizes, target, come)
    for g in (f, quire.jit(f)):
        np.testing.assert_array_equal(g(data, *args), [1, 3, 0, 0, 2, 2, 4, 0])
    ct = quire.grad(lambda x: (f(x, *args) * np.arange(1, 9)).sum())(data)
    np.testing.assert_array_equal(ct, [1, 5, 6, 2, 7, 0])


def test_static_arguments_of_shard_map_are_given_as_they_are() -> None:
    seen: list[Any] = []

    def f(x: Any, n: Any) -> Any:
        seen.append(type(n))
        return x * n

    out = quire.shard_map(f, in_specs=(P("x"), None), out_specs=P("x"))(on(P("x")), 3)
    assert seen == [int]
    np.testing.assert_array_equal(out, A * 3)
    both = quire.shard_map(lambda n, x: x if n is None else -x, in_specs=(None, P("x")), out_specs=P("x"))
    np.testing.assert_array_equal(both(None, on(P("x"))), A)


def test_a_block_in_a_block_leaves_its_mesh_in_force(mesh: Any) -> None:
    with quire.set_mesh(quire.make_mesh((8,), ("z",))):
        assert quire.sharding.get_abstract_mesh().axis_names == ("z",)
    assert quire.sharding.get_abstract_mesh() == mesh.abstract_mesh
