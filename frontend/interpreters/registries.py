"""quire's rule tables as JAX's packages see them: dictionaries from primitives to rules of JAX's form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from quire.ir.primitive import Primitive, RuleTable
from quire.passes.cache import clear_transforms

from ..arrays.operands import as_array

Rule = Callable[..., Any]


class Registry(MutableMapping[Primitive, Rule]):
    """A rule table of quire as a dictionary of rules of another form.

    Args:
        table: the table.
        inward: a primitive and a rule of the other form to the table's.
        outward: a primitive and the table's rule to the other form.
    """

    def __init__(
        self,
        table: RuleTable[Any],
        inward: Callable[[Primitive, Rule], Rule],
        outward: Callable[[Primitive, Rule], Rule],
    ) -> None:
        self._table = table
        self._inward = inward
        self._outward = outward
        # What was registered, and the rule that the table was given for it.
        self._given: dict[Primitive, tuple[Rule, Rule]] = {}

    def __setitem__(self, p: Primitive, rule: Rule) -> None:
        if not isinstance(p, Primitive):
            raise TypeError(f"rules belong to primitives (quire.extend.core.Primitive), got {p!r}")
        known = p in self._table
        made = self._inward(p, rule)
        self._table.replace(p, made)
        self._given[p] = (rule, made)
        if known or not p.foreign:  # what was transformed by the rule before is transformed anew
            clear_transforms()

    def __getitem__(self, p: Primitive) -> Rule:
        found = self._table.get(p)
        if found is None:
            raise KeyError(p)
        given, made = self._given.get(p, (None, None))
        return given if given is not None and made is found else self._outward(p, found)

    def __delitem__(self, p: Primitive) -> None:
        if p not in self._table:
            raise KeyError(p)
        self._table.remove(p)
        self._given.pop(p, None)
        clear_transforms()

    def __iter__(self) -> Iterator[Primitive]:
        return iter(list(self._table))

    def __len__(self) -> int:
        return sum(1 for _ in self._table)

    def __contains__(self, p: object) -> bool:
        return p in self._table


def values(operands: Any) -> list[Any]:
    """Operands as rules of other packages expect them: numbers have an array's attributes."""
    return [as_array(x) for x in operands]


__all__ = ["Registry", "Rule", "values"]
