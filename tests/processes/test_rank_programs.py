"""The program of a rank takes the rank's indices as arguments, also what asks for them in loops and branches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quire
from quire import lax
from quire.backends.reference.engine import eval_jaxpr
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr, all_eqns
from quire.ir.primitives import control_flow as cf
from quire.ir.ranks import rank_grid
from quire.ir.sharding import AbstractMesh, P
from quire.ir.verifier import verify
from quire.passes.base import PassContext
from quire.passes.dce import DeadCode
from quire.passes.partition import partition
from quire.passes.rank_programs import boxed_program, with_indices

MESH = AbstractMesh((4, 2), ("x", "y"))


def asking(a: Any) -> Any:
    b, sums = lax.scan(lambda c, x: (c * 2 + lax.axis_index("x") + x, c.sum()), a, np.arange(3.0, dtype=np.float32))
    n, c = lax.while_loop(
        lambda s: s[0] < lax.axis_index("y") + 1, lambda s: (s[0] + 1, s[1] + lax.axis_index(("x", "y"))), (0, b)
    )
    return lax.cond(n > 1, lambda c: c * lax.axis_index("y"), lambda c: -c - lax.axis_index("x"), c), sums


def expected(a: Any, x: int, y: int) -> Any:
    sums = []
    for i in range(3):
        sums.append(a.sum())
        a = a * 2 + x + i
    for _ in range(y + 1):
        a = a + 2 * x + y
    return (a * y if y else -a - x), np.array(sums, np.float32)


@pytest.mark.parametrize("linear", [False, True])
def test_loops_and_branches_take_the_indices(linear: bool) -> None:
    grid = rank_grid(MESH, np.arange(8))
    specs = P("x", "y"), P(("x", "y"))
    mapped = quire.shard_map(asking, mesh=MESH, in_specs=specs[0], out_specs=specs, check_vma=False)
    device = partition(quire.make_jaxpr(mapped)(np.ones((8, 4), np.float32)), MESH, specs[:1], specs)
    boxed = boxed_program(device.jaxpr, grid, specs[:1], specs)
    if linear:  # as loops of derivatives have it: a bool for each operand
        j = boxed.jaxpr
        eqns = [
            e.replace(params={**e.params, "linear": (False,) * len(e.inputs)}) if e.primitive is cf.scan_p else e
            for e in j.eqns
        ]
        boxed = ClosedJaxpr(Jaxpr(j.constvars, j.invars, j.outvars, eqns), boxed.consts)
    made = with_indices(boxed)
    assert not any(e.primitive.name == "axis_index" for e in all_eqns(made.closed.jaxpr))
    program = DeadCode().apply(made.closed, PassContext())
    verify(program)
    a = np.arange(4, dtype=np.float32).reshape(2, 2)
    for rank in grid.ranks:
        x, y = grid.positions[rank]
        indices = [np.int32(grid.index(rank, [axis.name for axis in axes])) for axes in made.axes]
        for got, want in zip(eval_jaxpr(program, a, *indices), expected(a, x, y), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_boxes_that_do_not_follow_one_another_are_refused() -> None:
    grid = rank_grid(MESH, np.arange(8).reshape(4, 2) // 4)
    assert grid.sizes == (2, 1) and grid.inner == (2, 2)
    assert grid.box(1, P("x"), (8, 4)) == (slice(4, 8), slice(0, 4))
    assert grid.box(1, P(("x", "y")), (8, 4)) == (slice(4, 8), slice(0, 4))
    with pytest.raises(ValueError, match="processes hold x=2, y=2 devices of the mesh each"):
        grid.box(1, P(("y", "x")), (8, 4))
    with pytest.raises(ValueError, match="does not divide evenly among 2 processes"):
        grid.box(0, P("x"), (7, 4))
    for owners in ([0, 1, 1, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 0, 0, 1, 1]):
        with pytest.raises(ValueError, match="must be a contiguous box of the mesh, all boxes of one shape"):
            rank_grid(MESH, owners)  # type: ignore[arg-type]
