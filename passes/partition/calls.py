"""Factors of calls: programs are gone into; functions of the host see whole arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.primitives import calls

from .rules import Factors, alike, factors


@factors(calls.name_p)
def _name(in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray], **_: Any) -> Factors:
    return alike(in_avals, out_avals)


factors.absent(
    "the partitioner goes into its program",
    calls.jit_p, calls.checkpoint_p, calls.fusion_p, calls.custom_jvp_call_p, calls.custom_vjp_call_p,
    calls.custom_vmap_call_p,
)  # fmt: skip
factors.absent("it is compiled for whole arrays", calls.stablehlo_call_p, calls.kernel_call_p)
factors.absent("it has no value: only derivatives hold it", calls.custom_lin_p)
factors.absent("its programs solve for whole arrays", calls.custom_linear_solve_p)
factors.absent(
    "a function of the host sees whole arrays",
    calls.pure_callback_p, calls.ffi_call_p, calls.io_callback_p, calls.debug_callback_p, calls.check_p,
)  # fmt: skip
