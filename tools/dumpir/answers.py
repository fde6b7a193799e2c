"""What a question of dumpir's is answered with: lines for one screen, and the same as data."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from quire.ir.source import Source

ROWS = 40
"""An answer has no more lines than this; what is left out is said."""
WIDTH = 150
"""A line has no more characters than this."""


@dataclass(frozen=True)
class Answer:
    """An answer.

    Attributes:
        lines: as people read it.
        data: as `--json` prints it.
        status: the exit status that it means.
    """

    lines: Sequence[str]
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    status: int = 0


def short(text: str, width: int = WIDTH) -> str:
    """A text in one line of at most so many characters."""
    flat = text[: len(text) - len(text.lstrip(" "))] + " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 3] + "..."


def seconds_text(s: float) -> str:
    """A time as it is read: ``3.2 s``, ``41 ms``, ``7.5 us``."""
    if s >= 1:
        return f"{s:.3g} s"
    return f"{s * 1e3:.3g} ms" if s >= 1e-3 else f"{s * 1e6:.3g} us"


def count_text(n: float) -> str:
    """A large number as it is read: ``12.6 M``."""
    for unit in ("", " k", " M", " G", " T"):
        if abs(n) < 1000:
            return f"{n:.3g}{unit}"
        n /= 1000
    return f"{n:.3g} P"


def place_text(source: Source | None) -> str:
    """A user's line, as a path from the working directory; empty where it is not known."""
    if source is None:
        return ""
    near = os.path.relpath(source.file)
    return f"{source.file if near.startswith('..') else near}:{source.line}"


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Rows of text in columns, those of the numbers in `right` aligned to the right."""
    if not rows:
        return []
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        short_end("  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths))))
        for row in rows
    ]


_PLACE = re.compile(r"\(\S*/([^/\s()]+:[^\s()]+)\)$")
"""A user's line at the end of a line, with folders."""


def short_end(text: str, width: int = WIDTH) -> str:
    """A line without blanks at its end, cut where it is too long; a user's line at its end loses its folders first."""
    text = text.rstrip()
    if len(text) > width:
        text = _PLACE.sub(r"(.../\1)", text)
    return text if len(text) <= width else text[: width - 3] + "..."


def capped(lines: Sequence[str], most: int, what: str = "more") -> list[str]:
    """The lines, or the first of them and how many are left out."""
    if len(lines) <= most:
        return list(lines)
    return [*lines[: most - 1], f"  ... {len(lines) - most + 1} {what}"]
