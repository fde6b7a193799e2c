"""Python functions that compiled programs call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quire.ir.avals import ShapedArray

from .reference.rule_call import RuleCall


@dataclass
class HostCall:
    """A Python function that a module imports: its symbol in the host module and what implements it.

    With `borrow` it takes views of the program's memory, otherwise copies. `function` is None in a stored program
    where it lives in the process that has lowered it only.
    """

    symbol: str
    function: Callable[..., Any] | None
    in_avals: tuple[ShapedArray, ...]
    out_avals: tuple[ShapedArray, ...]
    borrow: bool = False

    def stored(self) -> HostCall:
        """The same for a stored program: with rules of quire's own, without the user's functions."""
        return self if isinstance(self.function, RuleCall) else dataclasses.replace(self, function=None)
