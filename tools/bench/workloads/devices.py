"""Programs on eight simulated devices of the CPU: collectives, halo exchange, and a training step in three ways.

These workloads run in a process of the bench that has so many devices in every library (`Workload.devices`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..workload import Library, Timed, Workload, register
from .training import plain_gradient_step, small_mlp_arguments

DEVICES = 8


def _mesh(lib: Library) -> Any:
    return lib.make_mesh((DEVICES,), ("d",), (lib.sharding.AxisType.Auto,))


def _put(lib: Library, mesh: Any, tree: Any, *spec: Any) -> Any:
    """A tree of arrays divided over the mesh."""
    return lib.device_put(tree, lib.sharding.NamedSharding(mesh, lib.sharding.PartitionSpec(*spec)))


def _register(name: str, build: Callable[[Library], Timed]) -> None:
    register(Workload("devices", name, build, ("quire", "jax"), 1e-3, DEVICES))


def _mapped(
    name: str, f: Callable[[Library], Callable[..., Any]], *arrays: tuple[int, ...], out: tuple[Any, ...] = ("d",)
) -> None:
    """A shard_map over all devices, of arrays of these shapes divided along their first dimension."""

    def build(lib: Library) -> Timed:
        mesh, spec = _mesh(lib), lib.sharding.PartitionSpec
        rng = np.random.default_rng(0)
        given = [_put(lib, mesh, rng.standard_normal(s).astype(np.float32) / 8, "d") for s in arrays]
        mapped = lib.shard_map(f(lib), mesh=mesh, in_specs=(spec("d"),) * len(arrays), out_specs=spec(*out))
        compiled = lib.compiled(mapped)
        return Timed(lambda: compiled(*given))

    _register(name, build)


for _size, _text in ((1, "4 B"), (16384, "64 KB"), (1 << 20, "4 MB")):
    _mapped(f"psum of {_text} each", lambda lib: lambda x: lib.lax.psum(x, "d"), (DEVICES * _size,), out=())


def _halo(lib: Library) -> Callable[..., Any]:
    """100 steps of a three-point average with the neighbours' borders."""
    right = [(i, (i + 1) % DEVICES) for i in range(DEVICES)]
    left = [(j, i) for i, j in right]

    def step(_: Any, u: Any) -> Any:
        before = lib.lax.ppermute(u[-1:], "d", right)
        after = lib.lax.ppermute(u[:1], "d", left)
        padded = lib.np.concatenate([before, u, after])
        return 0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:]

    return lambda u: lib.lax.fori_loop(0, 100, step, u)


for _size in (1024, 65536):
    _mapped(f"halo, 100 steps of {_size} each", _halo, (DEVICES * _size,))


def _gathered(lib: Library) -> Callable[..., Any]:
    return lambda x, w: x @ lib.lax.all_gather(w, "d", tiled=True)


_mapped("matmul 1024 with all_gather", _gathered, (1024, 1024), (1024, 1024))


# -- one step of gradient descent, MLP 784-512-512-10, batch 256 -------------------------------------------------------


def _step(make: Callable[[Library, Any], tuple[Callable[..., Any], Callable[[Any], Any]]], put: bool) -> Any:
    """`make` gives the step and what places a batch; `put`: whether parameters are placed on all devices."""

    def build(lib: Library) -> Timed:
        mesh = _mesh(lib)
        step, place = make(lib, mesh)
        params, x, y = small_mlp_arguments(np.random.default_rng(0))
        params = _put(lib, mesh, params) if put else lib.put(params)
        x, y = place(x), place(y)
        params = step(params, x, y)[0]  # as in training: the parameters lie where the last step gave them
        return Timed(lambda: step(params, x, y))

    return build


def _whole(lib: Library, mesh: Any) -> Any:
    return lib.compiled(plain_gradient_step(lib)), lib.put


def _jitted(lib: Library, mesh: Any) -> Any:
    sharding, spec = lib.sharding.NamedSharding, lib.sharding.PartitionSpec
    everywhere, rows = sharding(mesh, spec()), sharding(mesh, spec("d"))
    step = lib.compiled(
        plain_gradient_step(lib), in_shardings=(everywhere, rows, rows), out_shardings=(everywhere, everywhere)
    )
    return step, lambda x: _put(lib, mesh, x, "d")


def _in_shard_map(lib: Library, mesh: Any) -> Any:
    spec = lib.sharding.PartitionSpec
    local = plain_gradient_step(lib, lambda loss: lib.lax.pmean(loss, "d"))
    mapped = lib.shard_map(local, mesh=mesh, in_specs=(spec(), spec("d"), spec("d")), out_specs=(spec(), spec()))
    return lib.compiled(mapped), lambda x: _put(lib, mesh, x, "d")


def _in_pmap(lib: Library, mesh: Any) -> Any:
    local = plain_gradient_step(lib, combine=lambda tree: lib.lax.pmean(tree, "d"))
    step = lib.pmap(local, axis_name="d", in_axes=(None, 0, 0), out_axes=(None, None))
    return step, lambda x: _put(lib, mesh, x.reshape(DEVICES, -1, *x.shape[1:]), "d")


_register("MLP step, not divided", _step(_whole, False))
_register("MLP step by jit", _step(_jitted, True))
_register("MLP step by shard_map", _step(_in_shard_map, True))
_register("MLP step by pmap", _step(_in_pmap, True))
