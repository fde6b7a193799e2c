"""The errors that a user meets: each script of this folder makes one mistake, and ends in the text of its error.

``pytest tests/error_texts --update`` writes the texts anew: read the difference before you commit it.
"""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.snapshots import check

HERE = Path(__file__).parent
SCRIPTS = sorted(path for path in HERE.glob("*.py") if path.name not in ("__init__.py", Path(__file__).name))
MARK = "#|"
_ROOT = re.compile(rf"{re.escape(str(HERE))}/|{re.escape(str(HERE.parents[1]))}/")
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def error_of(path: Path) -> str:
    """What a script raises, as the last lines of its traceback say it, without this machine's folders."""
    try:
        runpy.run_path(str(path))
    except Exception as error:
        notes: list[str] = getattr(error, "__notes__", [])
        name = type(error).__qualname__
        module = type(error).__module__
        full = name if module == "builtins" else f"{module}.{name}"
        return _ADDRESS.sub("0x...", _ROOT.sub("", "\n".join([f"{full}: {error}", *notes])))
    raise AssertionError(f"{path.name} raises nothing")


@pytest.mark.parametrize("path", SCRIPTS, ids=[s.stem for s in SCRIPTS])
def test_error(path: Path, update: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(path, MARK, error_of(path), update)


@pytest.mark.parametrize("path", SCRIPTS, ids=[s.stem for s in SCRIPTS])
def test_a_script_says_which_mistake(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith('"""'), f"{path.name} has no docstring"


def test_the_line_of_a_plain_script_is_told() -> None:
    """Nothing is above a script's own frame when Python runs it: the search for the user's line must not go past it."""
    path = HERE / "grad_of_integers.py"
    said = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False).stderr
    assert f"got int32 (at {path}:11, in <module>)" in said
