"""Ten models: devices receive at most what they receive under JAX, and compute what the whole program computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quire.backends.reference.engine import eval_jaxpr
from quire.backends.reference.ranks import eval_ranks
from quire.passes.base import PassContext
from quire.passes.emulate_spmd import EmulateSpmd
from quire.passes.partition import describe
from quire.tools.scaling import hlo, ours
from quire.tools.scaling.models import MODELS
from quire.tools.scaling.table import BEGIN, END, PAGE, rows, total, written

HLO = """HloModule jit_f

%body (p: (s32[], f32[4])) -> (s32[], f32[4]) {
  %a = f32[4]{0} all-reduce(f32[4]{0} %x), channel_id=1, replica_groups=[2,4]<=[8], to_apply=%sum
}

ENTRY %main (x: f32[4]) -> f32[4] {
  %g = f32[8,4]{1,0} all-gather(f32[2,4]{1,0} %y), replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}
  %w = (s32[], f32[4]) while((s32[], f32[4]) %t), condition=%test, body=%body, backend_config={"known_trip_count":{"n":"3"}}
}
"""


def test_collectives_of_a_compiled_program_are_counted() -> None:
    assert hlo.received(HLO, 8) == {"all-gather": (1, 96), "all-reduce": (3, 3 * 24)}
    with pytest.raises(ValueError, match="does not say how often"):
        hlo.received(HLO.replace("known_trip_count", "other"), 8)


def arguments(name: str) -> list[Any]:
    integers = dict(MODELS[name].integers)
    made: list[Any] = []
    for i, shape in enumerate(MODELS[name].shapes):
        rng = np.random.default_rng(i)
        whole = rng.integers(0, integers[i], shape).astype(np.int32) if i in integers else rng.normal(size=shape) * 0.2
        made.append(whole.astype(np.int32 if i in integers else np.float32))
    return made


@pytest.mark.parametrize("name", MODELS)
def test_devices_compute_what_the_whole_program_computes(name: str) -> None:
    p, args = ours.divided(MODELS[name]), arguments(name)
    got = eval_ranks(p.jaxpr, p.mesh, p.in_specs, p.out_specs, args, p.out_shapes)
    whole = EmulateSpmd().apply(ours.program(MODELS[name]), PassContext())
    for g, w in zip(got, eval_jaxpr(whole, *args), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5 * float(np.abs(w).max()))


def test_devices_receive_at_most_what_they_receive_under_jax() -> None:
    pytest.importorskip("jax")
    theirs = hlo.measured()
    for name, model in MODELS.items():
        p = ours.divided(model)
        assert total(ours.received(model)) <= total(theirs[name]), (name, describe(p.notes), theirs[name])
    page = PAGE.read_text()
    assert written(page, rows(theirs)) == page, "run python -m quire.tools.scaling"
    with pytest.raises(ValueError, match="must hold the marks"):
        written(page.replace(BEGIN, "").replace(END, ""), [])
