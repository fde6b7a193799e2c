"""The interpreter of ranks against the emulation of ranks: programs with shard_map, values and gradients."""

from __future__ import annotations

import numpy as np
import pytest

import quire
import quire.numpy as jnp
from quire import lax
from quire.backends.reference.engine import eval_jaxpr
from quire.backends.reference.ranks import eval_ranks
from quire.ir.jaxpr import all_eqns
from quire.ir.primitives.shard_map import shard_map_p
from quire.ir.sharding import AbstractMesh, P
from quire.passes.base import PassContext
from quire.passes.emulate_spmd import EmulateSpmd
from quire.passes.partition import partition
from tests.frontend.shard_map_cases import CASES, Case

LINE, GRID = AbstractMesh((4,), ("x",)), AbstractMesh((2, 4), ("x", "y"))
HERE = Case(quire, jnp, lax, P, LINE, GRID)


# A pmap beside a shard_map is of another mesh, and programs are partitioned for one.
@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith("pmap")])
def test_ranks_give_what_their_emulation_gives(name: str) -> None:
    f, check = CASES[name]
    closed = quire.make_jaxpr(lambda: f(HERE, check))()
    meshes = {e.params["mesh"].abstract_mesh for e in all_eqns(closed.jaxpr) if e.primitive is shard_map_p}
    (mesh,) = meshes
    p = partition(closed, mesh, [])
    got = eval_ranks(p.jaxpr, mesh, [], p.out_specs, [], p.out_shapes)
    for g, w in zip(got, eval_jaxpr(EmulateSpmd().apply(closed, PassContext())), strict=True):
        np.testing.assert_allclose(g, w, rtol=2e-5, atol=2e-5)
