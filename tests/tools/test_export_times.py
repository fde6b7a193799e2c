"""The table of exported programs beside quire from Python."""

from __future__ import annotations

import shutil

import pytest

from quire.tools import export_times


def test_a_row_of_the_table(capsys):
    if shutil.which("cc") is None or shutil.which("make") is None or shutil.which("strip") is None:
        pytest.skip("there is no C compiler here")
    assert export_times.main(["cond"]) == 0
    *_, row = capsys.readouterr().out.splitlines()
    name, *numbers = [cell.strip() for cell in row.strip("|").split("|")]
    assert name == "cond" and all(float(x) >= 0 for x in numbers) and 0 < float(numbers[0]) < float(numbers[1])
