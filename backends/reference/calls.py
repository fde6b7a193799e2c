"""Reference rules of calls."""

from __future__ import annotations

from typing import Any

from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives import calls

from .engine import eval_jaxpr
from .rules import reference


@reference(calls.jit_p)
def jit(*operands: Any, name: str, jaxpr: ClosedJaxpr, inline: bool, donated_invars: tuple[bool, ...]) -> Any:
    return eval_jaxpr(jaxpr, *operands)
