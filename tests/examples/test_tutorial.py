"""What the tutorial's pages and the cookbook's notebooks say is so."""

from __future__ import annotations

import contextlib
import doctest
import io
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("iree.compiler")

DOCS = Path(__file__).resolve().parents[2] / "docs"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


@pytest.mark.parametrize("page", sorted(p.stem for p in (DOCS / "tutorial").glob("*.md")))
def test_the_tutorial_is_true(page: str) -> None:
    out = io.StringIO()
    test = doctest.DocTestParser().get_doctest(
        (DOCS / "tutorial" / f"{page}.md").read_text(encoding="utf-8"), {}, page, f"{page}.md", 0
    )
    assert len(test.examples) >= 9
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    runner.run(test, out=out.write)
    assert runner.failures == 0, out.getvalue()


@pytest.mark.parametrize("notebook", sorted(p.stem for p in (DOCS / "cookbook").glob("*.ipynb")))
def test_a_notebook_runs(notebook: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DOCS)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    book = json.loads((DOCS / "cookbook" / f"{notebook}.ipynb").read_text(encoding="utf-8"))
    assert book["nbformat"] == 4 and not any(cell.get("outputs") for cell in book["cells"])
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        for i, cell in enumerate(book["cells"]):
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), f"{notebook}.ipynb, cell {i}", "exec"), names)
    assert shown.getvalue().strip()
