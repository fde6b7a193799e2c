"""Python functions that compiled programs call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quire.ir.avals import ShapedArray

from .collective_call import CollectiveCall
from .reference.rule_call import RuleCall


@dataclass
class HostCall:
    """A Python function that a module imports: its symbol in the host module and what implements it.

    With `borrow` it takes views of the program's memory, otherwise copies. With `fills` it takes the results' memory after
    its arguments, and writes it. `function` is None in a stored program
    where it lives in the process that has lowered it only.
    """

    symbol: str
    function: Callable[..., Any] | None
    in_avals: tuple[ShapedArray, ...]
    out_avals: tuple[ShapedArray, ...]
    borrow: bool = False
    fills: bool = False

    def stored(self) -> HostCall:
        """The same for a stored program: with rules and collectives of quire's own, without the user's functions."""
        return (
            self if isinstance(self.function, RuleCall | CollectiveCall) else dataclasses.replace(self, function=None)
        )
