"""shard_map on simulated devices against JAX's, run in one process with 8 devices: values, gradients, mistakes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire import lax
from quire.ir.sharding import AbstractMesh
from quire.ir.sharding import PartitionSpec as P
from quire.test_util import check_grads

from .shard_map_cases import CASES, MISTAKES, Case, V, flat

MESH, GRID = AbstractMesh((4,), ("x",)), AbstractMesh((2, 4), ("x", "y"))
HERE = Case(quire, qnp, lax, P, MESH, GRID)


@pytest.fixture(scope="module")
def jax_results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    pytest.importorskip("jax")
    file = tmp_path_factory.mktemp("jax") / "results"
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    subprocess.run([sys.executable, "-m", "tests.frontend.shard_map_cases", str(file)], env=env, cwd=root, check=True)
    return pickle.loads(file.read_bytes())


@pytest.mark.parametrize("name", CASES)
def test_like_jax(name: str, jax_results: dict[str, Any]) -> None:
    want = jax_results[name]
    assert not isinstance(want, str), want
    f, check = CASES[name]
    got = flat(f(HERE, check))
    assert [x.shape for x in got] == [x.shape for x in want]
    for g, w in zip(got, want):
        np.testing.assert_allclose(g, w, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, jax_results: dict[str, Any]) -> None:
    f, words = MISTAKES[name]
    kind, message = jax_results[name]
    assert words in message
    with pytest.raises(BaseException) as found:
        f(HERE)
    assert (type(found.value).__name__, words in str(found.value)) == (kind, True), str(found.value)


def test_types_say_along_which_axes_values_vary() -> None:
    seen: list[Any] = []

    def f(x: Any, w: Any) -> Any:
        for y in (
            x,
            w,
            x * w,
            lax.psum(x, "x"),
            lax.all_gather(x, "y"),
            lax.axis_index("x"),
            lax.pcast(w, "y", to="varying"),
        ):
            seen.append(set(quire.typeof(y).vma))
        return x

    args: Any = (qnp.ones((2, 4)), 1.0)
    quire.make_jaxpr(quire.shard_map(f, mesh=GRID, in_specs=(P("x", "y"), P()), out_specs=P("x", "y")))(*args)
    assert seen == [{"x", "y"}, set(), {"x", "y"}, {"y"}, {"x", "y"}, {"x"}, {"y"}]
    seen.clear()
    quire.make_jaxpr(
        quire.shard_map(f, mesh=GRID, in_specs=(P("x", "y"), P()), out_specs=P("x", "y"), check_vma=False)
    )(*args)
    assert seen == [set()] * 7


def test_text_is_read_back() -> None:
    from quire.ir.parser import parse
    from quire.ir.printer import to_text

    f = quire.shard_map(
        lambda x: lax.psum(x, "x") * x, mesh=GRID, in_specs=P(None, ("x", "y")), out_specs=P(None, ("x", "y"))
    )
    jaxpr = quire.make_jaxpr(quire.grad(lambda x: f(x).sum()))(qnp.ones((1, 8)))
    assert parse(to_text(jaxpr)) == jaxpr


def test_no_data_moves_where_the_leading_dimension_is_divided() -> None:
    """The emulated program of an elementwise function has no transpose, gather or concatenation."""
    from quire.ir.jaxpr import all_eqns
    from quire.passes.manager import PassManager

    f = quire.shard_map(
        lambda a, b: qnp.tanh(a) * b + lax.psum(a, "x"), mesh=MESH, in_specs=(P("x"), P()), out_specs=P("x")
    )
    jaxpr = quire.make_jaxpr(f)(V, V[:4])
    program = PassManager("inline,emulate-spmd,simplify,cse,dce", verify_each=True).run(jaxpr)
    names = {e.primitive.name for e in all_eqns(program.jaxpr)}
    assert names <= {"reshape", "tanh", "mul", "add", "reduce_sum", "broadcast_in_dim"}, names


def test_random_specs() -> None:
    """Identity and a sum over all that is divided, for random meshes, specs and shapes, against NumPy."""
    rng = np.random.default_rng(5)
    for _ in range(12):
        sizes = tuple(int(n) for n in rng.integers(1, 4, 3))
        mesh = AbstractMesh(sizes, ("a", "b", "c"))
        entries: list[list[str]] = [[], [], []]
        for axis in rng.permutation(["a", "b", "c"])[: rng.integers(1, 4)]:
            entries[rng.integers(3)].append(str(axis))
        spec = P(*map(tuple, entries))
        shape = [int(rng.integers(1, 3)) * int(np.prod([mesh.shape[a] for a in e])) for e in entries]
        x = rng.normal(size=shape).astype(np.float32)
        for check in (True, False):
            f = quire.shard_map(
                lambda v, spec=spec: (v * 2, lax.psum(v.sum(), spec.axes)), mesh=mesh, in_specs=spec,
                out_specs=(spec, P()), check_vma=check,
            )  # fmt: skip
            same, total = f(x)
            np.testing.assert_array_equal(same, x * 2)
            np.testing.assert_allclose(total, x.sum(), rtol=1e-4, atol=1e-5)
            g = quire.grad(lambda v, f=f: (f(v)[0] * f(v)[1]).sum())(x)
            np.testing.assert_allclose(g, 2 * x.sum() + 2 * x.sum() * np.ones_like(x), rtol=1e-4, atol=1e-4)


def test_devices_that_take_different_ways() -> None:
    """What is equal before a branch or loop varies after it; a collective within is an error at the user's line."""
    w, x = np.float32(0.5), V

    def branch(w: Any, x: Any) -> Any:
        y = lax.cond(lax.axis_index("x") > 1, lambda v: qnp.sin(v * w), lambda v: v * v, w)
        assert quire.typeof(y).vma == {"x"}
        return y * x

    def loss(w: Any, x: Any, check: bool) -> Any:
        f = quire.shard_map(branch, mesh=MESH, in_specs=(P(), P("x")), out_specs=P("x"), check_vma=check)
        return (f(w, x) ** 2).sum()

    def expected(w: Any) -> Any:
        y = qnp.where(qnp.arange(16) // 4 > 1, qnp.sin(w * w), w * w)
        return ((y * V) ** 2).sum()

    np.testing.assert_allclose(loss(w, x, True), expected(w), rtol=1e-5)
    np.testing.assert_allclose(quire.grad(loss)(w, x, True), quire.grad(expected)(w), rtol=1e-4)

    def loop(x: Any) -> Any:
        n = lax.while_loop(lambda n: n < lax.axis_index("x"), lambda n: n + 1, 0)
        assert quire.typeof(n).vma == {"x"}
        return n[None] + x[:1] * 0

    f = quire.shard_map(loop, mesh=MESH, in_specs=P("x"), out_specs=P("x"))
    assert np.asarray(f(V)).tolist() == [0, 1, 2, 3]

    def stuck(x: Any) -> Any:
        return lax.cond(x[0] > 0, lambda v: lax.pcast(lax.psum(v, "x"), "x", to="varying"), lambda v: v, x)

    with pytest.raises(ValueError, match=r"varies along mesh axis 'x'.*psum over 'x' \(at .*test_shard_map.py"):
        quire.shard_map(stuck, mesh=MESH, in_specs=P("x"), out_specs=P("x"))(V)

    def endless(x: Any) -> Any:
        return lax.while_loop(lambda v: v.sum() < 3, lambda v: v + lax.pcast(lax.psum(v, "x"), "x", to="varying"), x)

    with pytest.raises(ValueError, match=r"varies along mesh axis 'x'"):
        quire.shard_map(endless, mesh=MESH, in_specs=P("x"), out_specs=P("x"))(V)
    with pytest.raises(TypeError, match=r"one varies along x: give lax.pcast"):
        quire.shard_map(
            lambda x: lax.scan(lambda c, v: (lax.psum(c, "x"), None), x[0], x)[0][None], mesh=MESH, in_specs=P("x"),
            out_specs=P("x"),
        )(V)  # fmt: skip


def test_loops_whose_carries_come_to_vary() -> None:
    """Initial carries of constants vary where the body's results do, as by lax.pcast, which JAX asks for."""

    def chain(x: Any) -> Any:
        def turn(c: Any, v: Any) -> Any:
            a, b, n = c
            return (b, a + v, n + 1), quire.numpy.zeros_like(v)

        (a, b, n), ys = lax.scan(turn, (np.float32(0), np.float32(1), 0), x)
        assert (quire.typeof(b).vma, quire.typeof(n).vma, quire.typeof(ys).vma) == ({"x"}, frozenset(), {"x"})
        total = lax.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + x.sum()), (0, np.float32(0)), max_steps=4
        )[1]
        return (a + 2 * b + n + total + ys.sum())[None]

    f = quire.shard_map(chain, mesh=MESH, in_specs=P("x"), out_specs=P("x"))
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_allclose(np.asarray(f(x)), [_chain(r) for r in x.reshape(4, 2)])
    check_grads(lambda x: f(x * x).sum(), (x,), order=1, rtol=1e-2)


def _chain(row: Any) -> float:
    a, b = 0.0, 1.0
    for v in row:
        a, b = b, a + float(v)
    return a + 2 * b + len(row) + 3 * float(row.sum())


def test_arrays_like_others_vary_as_they_do() -> None:
    def f(x: Any) -> Any:
        from quire import numpy as qnp

        likes = [
            qnp.zeros_like(x), qnp.ones_like(x, shape=(3,)), qnp.empty_like(x), qnp.full_like(x, 2), lax.full_like(x, 1),
            qnp.full_like(x, np.float32(3)),
        ]  # fmt: skip
        assert all(quire.typeof(y).vma == {"x"} for y in likes)
        return x

    quire.shard_map(f, mesh=MESH, in_specs=P("x"), out_specs=P("x"))(V)


def test_samplers_with_loops_run_on_each_device() -> None:
    keys = quire.random.split(quire.random.key(0), 4)

    def samples(k: Any) -> Any:
        return quire.random.gamma(k, 2.0), quire.random.poisson(k, 3.0), quire.random.binomial(k, 5.0, 0.3)

    batched = quire.vmap(samples)
    shards = quire.shard_map(batched, mesh=MESH, in_specs=P("x"), out_specs=P("x"))(keys)
    for a, b in zip(shards, batched(keys)):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_other_forms() -> None:
    from quire.experimental.shard_map import shard_map as older

    @quire.shard_map(mesh=MESH, in_specs=P("x"), out_specs=P())
    def total(x: Any) -> Any:
        return lax.psum(x.sum(), "x")

    want = np.asarray(total(V))
    np.testing.assert_allclose(want, V.sum(), rtol=1e-6)
    old = older(lambda x: lax.psum(x.sum(), "x"), MESH, P("x"), P(), check_rep=False)
    np.testing.assert_array_equal(old(V), want)
    with pytest.raises(ValueError, match="not in the mesh"):
        older(lambda x: x, MESH, P("x"), P(), auto=frozenset(("z",)))
    with pytest.raises(TypeError, match="smap in_axes must be"):
        quire.smap(lambda x: x, in_axes="x", out_axes=0, axis_name="x")
    with pytest.raises(ValueError, match="inconsistent sizes"):
        quire.pmap(lambda x, y: x)(V, V[:3])
    with pytest.raises(ValueError, match="must have at least one non-None"):
        quire.pmap(lambda x: x, in_axes=None)(V)
    with pytest.raises(ValueError, match="the mapped axis has no elements"):
        quire.pmap(lambda x: x)(V[:0])
