"""Random programs give the same whole, on devices, in the boxes of ranks, and compiled in threads."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import quire
from quire import lax
from quire.backends.reference.ranks import eval_ranks
from quire.ir.config import config
from quire.ir.ranks import RankGrid, rank_grid
from quire.ir.sharding import AbstractMesh, Mesh, P, axes_of
from quire.passes.partition import partition
from quire.passes.rank_programs import boxed_program

from .random_programs import compiled, programs

MESH = AbstractMesh((4, 2), ("x", "y"))


def random_grid(rng: random.Random) -> RankGrid:
    """Ranks with so many devices each."""
    inner = rng.choice([(1, 1), (2, 1), (1, 2), (4, 1), (2, 2), (4, 2)])
    owners = np.zeros((4, 2), int)
    for number, place in enumerate(np.ndindex(4 // inner[0], 2 // inner[1])):
        owners[tuple(slice(p * k, p * k + k) for p, k in zip(place, inner))] = number
    return rank_grid(MESH, owners)


def fits(grid: RankGrid, spec: P, shape: Any) -> bool:
    try:
        grid.box(0, spec, shape)
    except ValueError:
        return False
    return True


def test_boxes_of_ranks() -> None:
    """The boxes' program, interpreted on a mesh whose axes are the ranks'.

    Programs are drawn until enough of them communicate: how many of the first ones do is the generator's affair.
    """
    checked = communicated = 0
    for p in programs(range(100, 400), MESH):
        if checked > 30 and communicated > 15:
            break
        rng = random.Random(p.seed)
        grid = random_grid(rng)
        shapes = [*(a.shape for a in p.closed.in_avals), *(a.shape for a in p.closed.out_avals)]
        if not all(fits(grid, s, n) for s, n in zip([*p.ins, *p.outs], shapes)):
            continue
        boxed = boxed_program(partition(p.closed, MESH, p.ins, p.outs).jaxpr, grid, p.ins, p.outs)
        ranks = AbstractMesh(grid.sizes, tuple(grid.axis(a) for a in grid.names))

        def over_ranks(s: P, grid: RankGrid = grid) -> P:
            return P(*(tuple(grid.axis(a) for a in axes_of(e)) for e in s))

        got = eval_ranks(boxed, ranks, [over_ranks(s) for s in p.ins], [over_ranks(s) for s in p.outs], p.values)
        p.check(got, f"in boxes of {grid}")
        checked += 1
        communicated += any(e.primitive.family == "collectives" for e in boxed.jaxpr.eqns)
    assert checked > 30 and communicated > 15


def test_permutations_between_lanes_of_ranks() -> None:
    """ppermute along axes of which ranks have several devices, for random pairs, against the interpreter of devices."""
    for seed in range(40):
        rng = random.Random(seed)
        grid = random_grid(rng)
        axes: Any = rng.choice(["x", "y", ("x", "y"), ("y", "x")])
        n = int(np.prod([MESH.shape[a] for a in axes]))
        sources, targets = rng.sample(range(n), n), rng.sample(range(n), n)
        count = rng.randint(1, n)
        shift = rng.randrange(n)
        pairs = list(zip(sources[:count], targets)) if seed % 2 else [(i, (i + shift) % n) for i in range(n)]
        spec = P("x", "y")

        def f(a: Any, axes: Any = axes, pairs: Any = pairs) -> Any:
            return lax.ppermute(a, axes, pairs)

        closed = quire.make_jaxpr(quire.shard_map(f, mesh=MESH, in_specs=spec, out_specs=spec))(
            np.ones((8, 4), np.float32)
        )
        device = partition(closed, MESH, [spec], [spec]).jaxpr
        a = np.random.default_rng(seed).normal(size=(8, 4)).astype(np.float32)
        (want,) = eval_ranks(device, MESH, [spec], [spec], [a])
        ranks = AbstractMesh(grid.sizes, tuple(grid.axis(a) for a in grid.names))
        of_ranks = P(*(grid.axis(a) for a in ("x", "y")))
        (got,) = eval_ranks(boxed_program(device, grid, [spec], [spec]), ranks, [of_ranks], [of_ranks], [a])
        np.testing.assert_array_equal(got, want, err_msg=f"{grid} {axes} {pairs}")


COLLECTIVES: dict[str, Any] = {
    "psum": lambda a, axes, n, k, g: lax.psum(a, axes, **g),
    "pmax": lambda a, axes, n, k, g: lax.pmax(a, axes, **g),
    "gather": lambda a, axes, n, k, g: lax.all_gather(a, axes, axis=k, **g).sum(0),
    "gather tiled": lambda a, axes, n, k, g: lax.all_gather(a, axes, axis=k, tiled=True, **g)[:8, :8],
    "scatter": lambda a, axes, n, k, g: lax.psum_scatter(a[:n], axes, **g)[None],
    "scatter tiled": lambda a, axes, n, k, g: lax.psum_scatter(a, axes, scatter_dimension=k, tiled=True, **g),
    "exchange": lambda a, axes, n, k, g: lax.all_to_all(a[:n], axes, 0, k, **g),
    "exchange tiled": lambda a, axes, n, k, g: lax.all_to_all(a, axes, k, 1 - k, tiled=True, **g),
    "index": lambda a, axes, n, k, g: a + lax.axis_index(axes),
}


def test_collectives_between_lanes_of_ranks() -> None:
    """Every collective, in groups too, along axes of which ranks have several devices."""
    spec = P("x", "y")
    for seed in range(120):
        rng = random.Random(seed)
        grid = random_grid(rng)
        axes: Any = rng.choice(["x", "y", ("x", "y"), ("y", "x")])
        n = int(np.prod([MESH.shape[a] for a in axes]))
        groups: dict[str, Any] = {}
        if isinstance(axes, str) and rng.random() < 0.5:
            order = rng.sample(range(n), n)
            n = rng.choice([k for k in (1, 2, n) if len(order) % k == 0])
            groups["axis_index_groups"] = [order[i : i + n] for i in range(0, len(order), n)]
        name, k = rng.choice(list(COLLECTIVES)), rng.randrange(2)

        def f(a: Any, args: Any = (axes, n, k, groups), g: Any = COLLECTIVES[name]) -> Any:
            return g(a, *args)

        mapped = quire.shard_map(f, mesh=MESH, in_specs=spec, out_specs=spec, check_vma=False)
        a = np.random.default_rng(seed).integers(-9, 9, size=(32, 16)).astype(np.float32)
        device = partition(quire.make_jaxpr(mapped)(a), MESH, [spec], [spec]).jaxpr
        (want,) = eval_ranks(device, MESH, [spec], [spec], [a])
        ranks = AbstractMesh(grid.sizes, tuple(grid.axis(a) for a in grid.names))
        of_ranks = P(*(grid.axis(a) for a in ("x", "y")))
        (got,) = eval_ranks(boxed_program(device, grid, [spec], [spec]), ranks, [of_ranks], [of_ranks], [a])
        np.testing.assert_array_equal(got, want, err_msg=f"{name} {grid} {axes} {groups}")


@pytest.mark.parametrize("spmd", [None, "threads", "threads:2"])
def test_compiled(spmd: str | None) -> None:
    with config.override(num_cpu_devices=4, spmd=spmd):
        compiled(Mesh(np.array(quire.devices()).reshape(2, 2), ("x", "y")))
