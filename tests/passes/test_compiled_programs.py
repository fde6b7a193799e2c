"""Random programs through the default pipeline, StableHLO and IREE, against the reference on the traced program."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quire.ir import dtypes
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr
from quire.passes.compare import evaluate
from tests.helpers import run_compiled
from tests.programs import inputs, programs


def together(many: list[ClosedJaxpr]) -> ClosedJaxpr:
    """One program that computes all of them: IREE takes 0.3 s for a module of any size."""
    js = [p.jaxpr for p in many]
    return ClosedJaxpr(
        Jaxpr(
            [v for j in js for v in j.constvars],
            [v for j in js for v in j.invars],
            [a for j in js for a in j.outvars],
            [e for j in js for e in j.eqns],
        ),
        [c for p in many for c in p.consts],
    )


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(programs(max_steps=8, control_flow=True), min_size=6, max_size=6))
def test_compiled_programs_agree_with_the_reference(many):
    program = together(many)
    args = inputs(program)
    before = [a.copy() for a in args]
    for i, (x, y) in enumerate(zip(evaluate(program, args), run_compiled(program, args), strict=True)):
        assert x.shape == y.shape and x.dtype == y.dtype
        if dtypes.is_inexact(x.dtype):
            scale = np.max(np.abs(x), initial=1.0, where=np.isfinite(x))
            assert np.allclose(x, y, rtol=1e-4, atol=1e-5 * scale, equal_nan=True), f"result {i}: {x} {y}\n{program}"
        else:
            assert np.array_equal(x, y), f"result {i}: {x} {y}\n{program}"
    for a, b in zip(args, before):
        assert a.tobytes() == b.tobytes()
