"""The glossary names files that are there, and each entry says in which it lives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
ENTRIES = re.split(r"^(?=\*\*)", GLOSSARY.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("entry", ENTRIES, ids=[e.partition(".")[0].strip("*") for e in ENTRIES])
def test_an_entry_says_where(entry: str) -> None:
    _, where, places = entry.partition("\nWhere: ")
    assert where, "no line begins with Where:"
    places = places.partition("\n\n")[0]
    files = re.findall(r"`([\w/]+\.py)`", places)
    pages = re.findall(r"\]\(([\w-]+\.md)", places)
    assert files or pages
    missing = [f for f in files if not (ROOT / f).is_file()] + [p for p in pages if not (ROOT / "docs" / p).is_file()]
    assert not missing
    # Names in parentheses behind a file are defined or called there.
    for file, names in re.findall(r"`([\w/]+\.py)` \(((?:`\w+`(?:, )?)+)\)", places):
        text = (ROOT / file).read_text(encoding="utf-8")
        assert all(re.search(rf"\b{name}(_p)?\b", text) for name in re.findall(r"`(\w+)`", names)), file


def test_it_is_linked() -> None:
    assert "(docs/glossary.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "(glossary.md)" in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_a_word_has_one_entry() -> None:
    words = [entry.partition("**")[2].partition(".")[0] for entry in ENTRIES]
    assert sorted(set(words)) == sorted(words)


def test_there_are_entries() -> None:
    assert len(ENTRIES) >= 30
