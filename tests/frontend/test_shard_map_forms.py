"""shard_map over some of a mesh's axes, in other transformations, and interpreted rank by rank; where its results lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.backends.reference.engine import eval_jaxpr
from quire.ir.config import config
from quire.sharding import AbstractMesh, AxisType, NamedSharding
from quire.sharding import PartitionSpec as P

A = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.fixture(scope="module")
def mesh() -> Any:
    with config.override(num_cpu_devices=8):
        yield quire.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)


def put(mesh: Any, x: Any, *spec: Any) -> Any:
    return quire.device_put(x, NamedSharding(mesh, P(*spec)))


def plus_index(a: Any) -> Any:
    return a * 2 + lax.axis_index("x")


PLUS_INDEX = A * 2 + np.repeat(np.arange(4), 2)[:, None]


@pytest.mark.parametrize("wrap", [lambda f: f, quire.jit], ids=["eager", "jit"])
def test_axes_that_are_not_manual_stay_divided(mesh: Any, wrap: Any) -> None:
    f = quire.shard_map(plus_index, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    out = wrap(f)(put(mesh, A, "x", "y"))
    assert out.sharding.spec == P("x", "y")
    np.testing.assert_array_equal(out, PLUS_INDEX)


def test_the_mesh_in_force_within(mesh: Any) -> None:
    seen: list[Any] = []

    def f(a: Any) -> Any:
        seen.append(quire.sharding.get_abstract_mesh().axis_types)
        return lax.with_sharding_constraint(a * 2, P(None, "y"))

    out = quire.jit(quire.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"}))(A)
    assert out.sharding.spec == P("x", "y") and seen == [(AxisType.Manual, AxisType.Auto)]
    np.testing.assert_array_equal(out, A * 2)


def test_one_axis_within_another(mesh: Any) -> None:
    def inner(b: Any) -> Any:
        return b * lax.axis_index("y") + lax.axis_index("x")

    def outer(a: Any) -> Any:
        return quire.smap(inner, in_axes=1, out_axes=1, axis_name="y")(a)

    with quire.set_mesh(mesh):
        out = quire.jit(quire.smap(outer, in_axes=0, out_axes=0, axis_name="x"))(A)
    assert out.sharding.spec == P("x", "y")
    np.testing.assert_array_equal(out, A * np.repeat([0, 1], 2) + np.repeat(np.arange(4), 2)[:, None])


@pytest.mark.parametrize("check_vma", [True, False])
def test_lanes_on_devices_of_their_own(mesh: Any, check_vma: bool) -> None:
    f = quire.shard_map(
        lambda a: a + lax.psum(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=check_vma
    )
    out = quire.jit(quire.vmap(f, spmd_axis_name="y"))(np.stack([A, 2 * A]))
    assert out.sharding.spec == P("y", "x")
    sums = A + np.tile(A.reshape(4, 2, 4).sum(0), (4, 1))
    np.testing.assert_array_equal(out, np.stack([sums, 2 * sums]))


def test_results_of_no_arguments_lie_on_the_mesh(mesh: Any) -> None:
    out = quire.shard_map(lambda: lax.axis_index(("x", "y"))[None], mesh=mesh, in_specs=(), out_specs=P(("x", "y")))()
    assert out.sharding.spec == P(("x", "y")) and out.tolist() == list(range(8))


# -- the interpreter of ranks ------------------------------------------------------------------------------------------

GRID = AbstractMesh((4, 2), ("x", "y"))


def interpreted(f: Any, *args: Any) -> Any:
    """The results of a function whose equations the reference backend evaluates."""
    return eval_jaxpr(quire.make_jaxpr(f)(*args), *args)


def test_interpreted_rank_by_rank() -> None:
    def f(a: Any, w: Any) -> Any:
        total = lax.psum((a @ w).sum(), "x")
        turned = lax.ppermute(a, "x", [(i, (i + 1) % 4) for i in range(4)])
        return turned * lax.axis_index("x") + total, total

    def both(a: Any, w: Any) -> Any:
        return quire.shard_map(f, mesh=GRID, in_specs=(P("x"), P()), out_specs=(P("x"), P()))(a, w)

    w = np.linspace(0, 1, 4, dtype=np.float32)
    for got, want in zip(interpreted(both, A, w), quire.jit(both)(A, w), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_interpreted_with_references() -> None:
    """A loop that communicates and keeps what it computes in a place."""

    def f(a: Any) -> Any:
        place = quire.new_ref(a)

        def step(i: Any, _: None) -> None:
            place[1:] = place[:-1] * 0.5
            place[0] = lax.pmean(place[0], "x") + i

        lax.fori_loop(0, 3, step, None)
        return place[...]

    both = quire.shard_map(f, mesh=GRID, in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_allclose(interpreted(both, A)[0], quire.jit(both)(A), rtol=1e-6)


def test_interpreted_within_another() -> None:
    def inner(b: Any) -> Any:
        return lax.psum(b, "y") + lax.axis_index("x")

    def outer(a: Any) -> Any:
        return quire.shard_map(inner, mesh=GRID, in_specs=P(None, "y"), out_specs=P(), axis_names={"y"})(a)

    f = quire.shard_map(outer, mesh=GRID, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    (got,) = interpreted(f, A)
    np.testing.assert_array_equal(got, A[:, :2] + A[:, 2:] + np.repeat(np.arange(4), 2)[:, None])
    np.testing.assert_array_equal(got, quire.jit(f)(A))


def test_derivatives_of_a_checkpoint_of_it_are_evaluated_eagerly() -> None:
    f = quire.shard_map(
        lambda a, w: lax.psum(qnp.sin(a @ w).sum(), "x"), mesh=GRID, in_specs=(P("x"), P()), out_specs=P()
    )
    w = np.ones(4, np.float32)
    got = quire.grad(lambda w: quire.checkpoint(f)(A, w))(w)
    np.testing.assert_allclose(got, A.T @ np.cos(A @ w), rtol=1e-4)
