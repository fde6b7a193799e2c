"""The table of reference rules: one NumPy function a primitive.

A rule takes the operands as NumPy arrays (0-d arrays for scalars) and the parameters as keywords, and returns the
result, or a sequence of results for a primitive with several. The engine gives results the exact dtype and shape of
the type rule, so a rule need not care about NumPy's scalars and promotions, only about values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quire.ir.primitive import Primitive, RuleTable

ReferenceRule = Callable[..., Any]
reference: RuleTable[ReferenceRule] = RuleTable("reference", "evaluation by NumPy")

#: Rules that know which results nothing reads (a set of their numbers, the keyword `unread`), and leave any numbers there.
sparing: dict[Primitive, ReferenceRule] = {}
