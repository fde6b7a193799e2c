"""The generated sections of a page: each kind of measurement has one of its own, between two comments with its name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def markers(name: str) -> tuple[str, str]:
    """The lines between which a section lies."""
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def replace_section(path: Path, name: str, lines: Sequence[str]) -> None:
    """Replace one generated section of a page; the rest, other sections included, stays as it is.

    Raises:
        ValueError: the page has no such section, or more than one.
    """
    text = path.read_text(encoding="utf-8")
    start, end = markers(name)
    if text.count(start) != 1 or text.count(end) != 1 or text.index(end) < text.index(start):
        raise ValueError(f"{path} has no section between {start} and {end} to be replaced, or has several")
    before, rest = text.split(start, 1)
    after = rest.split(end, 1)[1]
    path.write_text(before + start + "\n" + "\n".join(lines) + "\n" + end + after, encoding="utf-8")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in Markdown: text in the first and the last column, numbers between them."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "|".join(["---", *["---:"] * (len(heads) - 2), "---"]) + "|"]
    return [*lines, *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)]
