"""Environment variables are declared in one place, read by their declarations, and documented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quire.ir.config import config
from quire.ir.environment import CACHE, DUMP_TO, VARIABLES
from quire.tools import environment_table

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("ir", "passes", "backends", "runtime", "frontend")


def test_variables_are_read_by_their_declarations() -> None:
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            where = file.relative_to(ROOT).as_posix()
            text = file.read_text(encoding="utf-8")
            if where != "ir/environment.py":
                assert not re.search(r"environ(\.get\(|\[)\s*f?[\"']QUIRE_", text), f"{where} reads a variable by name"


def test_every_name_is_declared() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    sources = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    used = {
        n for file in (*pages, *sources) for n in re.findall(r"\bQUIRE_[A-Z0-9_]+\b", file.read_text(encoding="utf-8"))
    }
    assert used == set(VARIABLES)


def test_the_page_is_up_to_date() -> None:
    assert environment_table.main(["--check"]) == 0
    assert set(re.findall(r"^\| `(\w+)=", environment_table.PAGE.read_text(), re.MULTILINE)) == set(VARIABLES)


def test_options_that_variables_set_are_there() -> None:
    for variable in VARIABLES.values():
        assert not variable.option or variable.name == f"QUIRE_{variable.option.upper()}"
        assert not variable.option or hasattr(config, variable.option)


@pytest.mark.parametrize(("value", "on"), [(None, True), ("", True), ("1", True), ("Off", False), (" 0", False)])
def test_switches(monkeypatch: pytest.MonkeyPatch, value: str | None, on: bool) -> None:
    monkeypatch.delenv("QUIRE_CACHE", raising=False)
    if value is not None:
        monkeypatch.setenv("QUIRE_CACHE", value)
    assert CACHE.is_on(True) is on
    assert CACHE.is_on(False) is (on and bool(value))


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIRE_DUMP_TO", "")
    assert DUMP_TO.text() is None
    monkeypatch.setenv("QUIRE_DUMP_TO", "there")
    assert DUMP_TO.text() == "there"
