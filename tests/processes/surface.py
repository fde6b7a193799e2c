"""What a user of two processes with two devices each sees; each function runs on both, and asserts what holds on each.

Where JAX's behaviour is meant, it is that of JAX 0.10.2 under `jax.distributed` with two devices a process.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import quire
import quire.numpy as qnp
from quire.experimental import multihost_utils as mh
from quire.sharding import Mesh, NamedSharding
from quire.sharding import PartitionSpec as P

CASES: list[Callable[[Mesh], None]] = []
NOT_ADDRESSABLE = (
    "Fetching value for `quire.Array` that spans non-addressable (non process local) devices is not possible. You can use "
    "`quire.experimental.multihost_utils.process_allgather` to print the global array or use `.addressable_shards` method of "
    "quire.Array to inspect the addressable (process local) shards."
)
EIGHT = np.arange(8, dtype=np.float32)


def case(f: Callable[[Mesh], None]) -> Callable[[Mesh], None]:
    CASES.append(f)
    return f


def raises(error: type[BaseException], text: str) -> Any:
    return pytest.raises(error, match=re.escape(text))


def on(mesh: Mesh, *spec: Any) -> NamedSharding:
    return NamedSharding(mesh, P(*spec))


@case
def devices(mesh: Mesh) -> None:
    here = quire.process_index()
    assert (quire.process_count(), quire.process_indices()) == (2, [0, 1])
    assert [d.id for d in quire.devices()] == [0, 1, 2048, 2049]
    assert [d.id for d in quire.local_devices()] == [2048 * here, 2048 * here + 1]
    assert (quire.device_count(), quire.local_device_count()) == (4, 2)
    assert quire.local_devices(1 - here)[0].process_index == 1 - here
    assert pickle.loads(pickle.dumps(quire.devices()[3])) is quire.devices()[3]
    assert mesh.is_multi_process and mesh.local_mesh.size == 2
    assert quire.distributed.is_initialized()
    with raises(RuntimeError, "should only be called once"):
        quire.distributed.initialize()
    assert qnp.ones(3).device is quire.local_devices()[0]


@case
def array(mesh: Mesh) -> None:
    here = quire.process_index()
    x = quire.device_put(EIGHT, on(mesh, "x"))
    assert repr(x) == str(x) == "Array(shape=(8,), dtype=float32)"
    assert (x.shape, len(x), x.is_fully_addressable, x.is_fully_replicated) == ((8,), 8, False, False)
    assert [s.index for s in x.addressable_shards] == [
        (slice(4 * here, 4 * here + 2),),
        (slice(4 * here + 2, 4 * here + 4),),
    ]
    assert [s.data.tolist() for s in x.addressable_shards] == [
        [4.0 * here, 4.0 * here + 1],
        [4.0 * here + 2, 4.0 * here + 3],
    ]
    assert [s.data is None for s in x.global_shards] == [bool(here)] * 2 + [not here] * 2
    assert x.addressable_data(1).tolist() == [4.0 * here + 2, 4.0 * here + 3]
    assert x.addressable_data(1).device is quire.local_devices()[1]
    for read in (np.asarray, x.tolist.__func__, float, list, pickle.dumps, quire.device_get, hash):
        with pytest.raises((RuntimeError, TypeError)) as error:
            read(x)
        if read not in (float, hash):
            assert str(error.value) == NOT_ADDRESSABLE
    assert float(x[5]) == 5 and int(x.sum()) == 28 and bool(x[0] == 0)
    y = quire.device_put(EIGHT, on(mesh))
    assert y.is_fully_replicated and not y.is_fully_addressable
    assert np.asarray(y).tolist() == EIGHT.tolist() and repr(y) == repr(qnp.array(EIGHT))
    assert mh.process_allgather(x.copy(), tiled=True).tolist() == EIGHT.tolist()
    x.delete()
    with raises(RuntimeError, "has no memory any more"):
        _ = x.addressable_shards


@case
def refused(mesh: Mesh) -> None:
    here = quire.process_index()
    x = quire.device_put(EIGHT, on(mesh, "x"))
    with raises(RuntimeError, "Closing over quire.Array that spans non-addressable (non process local) devices"):
        quire.jit(lambda: x + 1)()
    with raises(ValueError, "When the second argument to `device_put` is a Device, the first argument must be a fully"):
        quire.device_put(x, quire.local_devices()[0])
    with raises(ValueError, f"is a device of process {1 - here}"):
        quire.device_put(EIGHT, quire.local_devices(1 - here)[0])
    with raises(ValueError, "Received incompatible devices for jitted computation"):
        _ = x + quire.device_put(EIGHT, quire.local_devices()[0])
    with raises(AssertionError, "is not the same on each process"):
        quire.device_put(EIGHT + here, on(mesh, "x"))
    with raises(ValueError, "must be a contiguous box of the mesh"):
        quire.device_put(EIGHT, on(Mesh(np.array(quire.devices())[[0, 2, 1, 3]], "x"), "x"))
    square = Mesh(np.array(quire.devices()).reshape(2, 2).T, ("x", "y"))
    with raises(ValueError, "hold parts of it that do not follow one another"):
        quire.device_put(EIGHT, on(square, ("x", "y")))
    alone = Mesh(np.array(quire.local_devices(0)), "x")
    if here:
        with raises(ValueError, "process 1 has no device of"):
            quire.device_put(EIGHT, on(Mesh(np.array([quire.devices()[0], quire.devices()[1]]), "x"), "x"))
    else:
        assert np.asarray(quire.device_put(EIGHT, on(alone, "x")) + 1).tolist() == (EIGHT + 1).tolist()


@case
def meshes(mesh: Mesh) -> None:
    square = Mesh(np.array(quire.devices()).reshape(2, 2), ("a", "b"))
    x = quire.device_put(EIGHT, on(mesh, "x"))
    same = quire.device_put(x, on(square, ("a", "b")))
    assert same.sharding.mesh == square and [s.data.tolist() for s in same.addressable_shards] == [
        s.data.tolist() for s in x.addressable_shards
    ]
    for spec in (("b",), ("a",), ()):
        other = quire.device_put(x, on(square, *spec))
        assert mh.process_allgather(other, tiled=True).tolist() == EIGHT.tolist() if spec else other.is_fully_replicated
    with raises(ValueError, "a program of several processes has arrays on one mesh"):
        _ = quire.jit(lambda a, b: a + b)(x, other)
    explicit = quire.make_mesh((4,), ("x",))
    y = quire.device_put(EIGHT, on(explicit, "x"))
    with quire.set_mesh(explicit):
        assert quire.jit(lambda a: quire.reshard(a * 2, P()))(y).tolist() == (EIGHT * 2).tolist()


@case
def local_data(mesh: Mesh) -> None:
    here = quire.process_index()
    mine = EIGHT[4 * here : 4 * here + 4]
    make = quire.make_array_from_process_local_data
    for x in (make(on(mesh, "x"), mine), make(on(mesh, "x"), EIGHT, (8,)), make(on(mesh, "x"), mine, (8,))):
        assert x.shape == (8,) and mh.process_allgather(x, tiled=True).tolist() == EIGHT.tolist()
    assert make(on(mesh), mine[:3] * 0).shape == (3,)
    with raises(ValueError, "this process holds (4,), got local data of shape (3,)"):
        make(on(mesh, "x"), mine[:3], (8,))
    x = mh.host_local_array_to_global_array(mine, mesh, P("x"))
    assert x.shape == (8,) and x.sharding == on(mesh, "x")
    assert np.asarray(mh.global_array_to_host_local_array(x, mesh, P("x"))).tolist() == mine.tolist()
    assert mh.host_local_array_to_global_array({"a": mine, "b": EIGHT}, mesh, P())["b"].shape == (8,)


@case
def utilities(mesh: Mesh) -> None:
    here = quire.process_index()
    three = np.arange(3, dtype=np.int32)
    assert mh.process_allgather(three + here).tolist() == [[0, 1, 2], [1, 2, 3]]
    assert mh.process_allgather({"a": three + here}, tiled=True)["a"].tolist() == [0, 1, 2, 1, 2, 3]
    assert mh.process_allgather(np.float32(here)).tolist() == [0, 1]
    with raises(ValueError, "Gathering global non-fully-addressable arrays only supports tiled=True"):
        mh.process_allgather(quire.device_put(EIGHT, on(mesh, "x")))
    assert mh.broadcast_one_to_all(three + here).tolist() == [0, 1, 2]
    assert mh.broadcast_one_to_all((three + here, 1.5 + here), is_source=here == 1)[0].tolist() == [1, 2, 3]
    mh.sync_global_devices("here")
    with raises(AssertionError, "sync_global_devices name mismatch"):
        mh.sync_global_devices(f"at {here}")
    mh.assert_equal({"a": three})
    with raises(AssertionError, "they differ. Expected: [0 1 2]"):
        mh.assert_equal(three + here, "they differ")


@case
def different_programs(mesh: Mesh) -> None:
    here = quire.process_index()
    x = quire.device_put(EIGHT, on(mesh, "x"))
    f = quire.jit(lambda a: a * (2.0 + here))
    for _ in range(2):  # the call that failed has left nothing behind
        with raises(RuntimeError, "the processes are about to run different programs: process") as error:
            f(x)
        assert "surface.py:" in str(error.value) and f"{2.0 + here}" in str(error.value)
    with raises(RuntimeError, "the processes are about to run different programs"):
        _ = quire.jit(qnp.sin)(x) if here else quire.jit(qnp.cos)(x)
    assert float(quire.jit(lambda a: a.sum())(x)) == 28


@case
def what_all_have(mesh: Mesh) -> None:
    """Operations on arrays that every process has whole are each process' own: one may do them alone."""
    total = quire.jit(lambda a: a.sum(), out_shardings=on(mesh))(quire.device_put(EIGHT, on(mesh, "x")))
    if quire.process_index() == 0:
        half = total / 2 + 1
        assert float(half) == 15 and half.is_fully_replicated and half.sharding.mesh == mesh
        assert f"{qnp.sqrt(total + 8):.1f}" == "6.0"
    y = quire.device_put(EIGHT, on(mesh))
    assert (y * 2)[3].item() == 6 and qnp.stack([y, y]).shape == (2, 8) and (y + 1).sharding == on(mesh)


@case
def compiled(mesh: Mesh) -> None:
    x = quire.device_put(EIGHT, on(mesh, "x"))
    f = quire.jit(lambda a, b: {"s": a.sum() * b, "a": a + b}, out_shardings={"s": None, "a": on(mesh, "x")})
    out = f(x, 2.0)
    assert out["a"].sharding == on(mesh, "x") and float(out["s"]) == 56
    ahead = f.lower(x, 2.0).compile()
    assert float(ahead(x, 3.0)["s"]) == 84
    assert ahead.output_shardings["a"] == on(mesh, "x")
    with quire.set_mesh(mesh):
        g = quire.jit(lambda a: quire.lax.with_sharding_constraint(a * 2, P("x")))
        assert g(EIGHT).sharding == on(mesh, "x")
    empty = quire.jit(lambda a: (a[:0], a.sum()))(x)
    assert empty[0].shape == (0,) and float(empty[1]) == 28
    seen: list[Any] = []
    quire.jit(lambda a: quire.debug.callback(lambda v: seen.append(float(v)), a.sum()))(x)
    assert seen and set(seen) == {28.0}
    # Of one device, in the middle of it all.
    assert float(quire.jit(lambda a: a.sum())(EIGHT)) == 28


@case
def parallel_map(mesh: Mesh) -> None:
    here = quire.process_index()
    rows = EIGHT.reshape(2, 2, 2)[here]
    total, own = quire.pmap(
        lambda v, k: (quire.lax.psum(v, "i") * k, v + quire.lax.axis_index("i")), "i", in_axes=(0, None)
    )(rows, 2.0)
    assert total.tolist() == [[24, 32]] * 2 and own.tolist() == (rows + [[2 * here], [2 * here + 1]]).tolist()
    mean = quire.pmap(lambda v: quire.lax.pmean(v, "i"), "i", in_axes=1, out_axes=None)(rows)
    assert mean.shape == (2,)
    with raises(ValueError, "a process gives as many slices as it has devices, 2"):
        quire.pmap(lambda v: v)(EIGHT)


@case
def checks(mesh: Mesh) -> None:
    here = quire.process_index()
    x = quire.device_put(EIGHT, on(mesh, "x"))
    with quire.debug_nans(True):
        for f in (quire.jit(lambda a: qnp.log(a - 1)), lambda a: qnp.log(a - 1)):
            if here:
                assert f(x).shape == (8,)
            else:
                with raises(FloatingPointError, "on process 0, at index (0,) of the part float32[4] that it holds"):
                    f(x)
    with quire.config.override(check=True):
        assert float(quire.jit(lambda a: a.sum() * 3)(x)) == 84
    with raises(ValueError, "is compiled for CpuDevice(id="):
        quire.jit(lambda a: a, device=quire.local_devices()[0])(x)
    keys = quire.device_put(quire.random.split(quire.random.key(0), 4), on(mesh, "x"))
    assert repr(keys) == "Array(shape=(4,), dtype=key<fry>)"
    one = quire.jit(quire.vmap(lambda k: quire.random.normal(k, (2,))))
    whole = one(quire.random.split(quire.random.key(0), 4))
    np.testing.assert_allclose(mh.process_allgather(one(keys), tiled=True), np.asarray(whole), rtol=1e-6)


@case
def derivative(mesh: Mesh) -> None:
    x = quire.device_put(EIGHT, on(mesh, "x"))

    @quire.shard_map(mesh=mesh, in_specs=(P("x"), P()), out_specs=P())
    def loss(a, w):
        return quire.lax.psum(((a * w) ** 2).sum(), "x")

    value, (da, dw) = quire.jit(quire.value_and_grad(loss, (0, 1)))(x, 3.0)
    total = float((EIGHT**2).sum())
    assert float(value) == 9 * total and float(dw) == 6 * total
    assert mh.process_allgather(da, tiled=True).tolist() == (18 * EIGHT).tolist()
    assert da.sharding.is_equivalent_to(on(mesh, "x"), 1)
