"""Calls: equations that apply a nested jaxpr as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..avals import ShapedArray
from ..jaxpr import ClosedJaxpr, Effects
from ..primitive import primitive


def nested_effects(params: Mapping[str, Any]) -> Effects:
    """The effects of the nested jaxpr of parameter `jaxpr`."""
    return params["jaxpr"].effects


def check_call(name: str, jaxpr: ClosedJaxpr, operands: tuple[ShapedArray, ...]) -> None:
    """Raise TypeError unless the operands fit the nested jaxpr's inputs (weak types aside)."""
    want = [a.strong() for a in jaxpr.in_avals]
    if [a.strong() for a in operands] != want:
        raise TypeError(
            f"{name}: the nested jaxpr takes ({', '.join(a.short() for a in want)}), "
            f"got ({', '.join(a.short() for a in operands)})"
        )


@primitive("jit", multiple_results=True, effects=nested_effects)
def jit_p(
    *operands: ShapedArray, name: str, jaxpr: ClosedJaxpr, inline: bool, donated_invars: tuple[bool, ...]
) -> tuple[ShapedArray, ...]:
    """Apply a compiled function's jaxpr; outside any trace the program is compiled and run."""
    check_call("jit", jaxpr, operands)
    return tuple(jaxpr.out_avals)
