"""Modules that were printed with locations: which operations come from a line of the user's, and in which function they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PLACE = re.compile(r'"([^"\n]+)":(\d+):\d+')
_LOCATION = re.compile(r" loc\((.*)\)$")
_INNER = re.compile(r" loc\((?:[^()\"]|\"[^\"]*\"|\((?:[^()\"]|\"[^\"]*\")*\))*\)")
_SYMBOL = re.compile(
    r"(?:func\.func|util\.func|flow\.executable|stream\.executable|hal\.executable)(?: \w+)* @([\w$.-]+)"
)


@dataclass(frozen=True)
class Line:
    """A line of the user's: a file, by its name or the end of its path, and a number."""

    file: str
    number: int

    @staticmethod
    def parse(text: str) -> Line:
        """The line that ``model.py:47`` names. Raises ValueError for other text."""
        file, _, number = text.rpartition(":")
        if not file or not number.isdigit():
            raise ValueError(f"expected a line such as model.py:47, got {text!r}")
        return Line(file, int(number))

    def is_at(self, file: str, number: int) -> bool:
        """Whether a position is this line."""
        if number != self.number:
            return False
        mine, other = Path(self.file).parts, Path(file).parts
        return other[-len(mine) :] == mine

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


@dataclass(frozen=True)
class Operation:
    """One operation of a module: its text in one line without locations, the symbol it is within, its lines."""

    text: str
    symbol: str
    places: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        """The operation's name, as ``stablehlo.add``."""
        found = re.match(r'(?:%[\w#:, %]+ = )?"?([a-z_]+(?:\.[\w.]+)?)', self.text)
        return found[1] if found else self.text.split(" ", 1)[0]

    def is_from(self, line: Line) -> bool:
        """Whether it comes from a line of the user's, alone or with others."""
        return any(line.is_at(file, number) for file, number in self.places)


def operations(text: str) -> Iterator[Operation]:
    """The operations of a module that was printed with locations written out, in order of their ends."""
    symbols: list[tuple[int, str]] = []
    opened: dict[int, str] = {}
    for row in text.splitlines():
        indent = len(row) - len(row.lstrip())
        body = row.strip()
        while symbols and indent < symbols[-1][0] or symbols and indent == symbols[-1][0] and not body.startswith("}"):
            symbols.pop()
        found = _SYMBOL.search(body)
        if found:
            symbols.append((indent, found[1]))
        if body.endswith("{") and not body.startswith("}"):
            opened[indent] = body
        match = _LOCATION.search(body)
        if match is None or body.startswith("^"):
            continue
        places = tuple(dict.fromkeys((file, int(n)) for file, n in _PLACE.findall(match[1]) if file != "-"))
        head = body[: match.start()]
        if head.startswith(("}", "})")) and indent in opened:
            head = opened.pop(indent) + " ... }"
        yield Operation(_INNER.sub("", head), symbols[-1][1] if symbols else "", places)
