"""The site of docs/: pages made of docstrings and notebooks, and the whole of it where mkdocs is installed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from quire.tools import site_hooks

ROOT = Path(__file__).resolve().parents[2]


def test_reference_pages_hold_public_names_and_docstrings() -> None:
    pages = {name: site_hooks.reference_page(name) for name in site_hooks.MODULES}
    for name in ("compile", "grad", "vmap", "kernel", "from_jax", "custom_vjp"):
        assert f"\n## {name}\n" in pages["quire"]
    page = pages["quire"].partition("\n## compile\n")[2].partition("\n## ")[0]
    assert "**Args**" in page and "- `donate_argnums, donate_argnames`: arguments whose memory" in page
    assert "```python\n>>> import quire\n" in page.replace("    ", "")
    assert all(page.count("```") % 2 == 0 for page in pages.values())
    language = site_hooks.class_page(*site_hooks.CLASSES[0])
    assert all(f"\n## k.{name}\n" in language for name in ("span", "program_id", "sum", "dot", "keep", "loop", "exp"))
    assert "\n## Pass\n" in pages["quire.plugins"] and "at 0x" not in "".join(pages.values())


def test_notebooks_are_pages() -> None:
    for notebook in sorted((ROOT / "docs" / "cookbook").glob("*.ipynb")):
        page = site_hooks.notebook_page(notebook.read_text(encoding="utf-8"))
        assert page.startswith("# ") and "```python\n" in page and page.count("```") % 2 == 0


def test_every_page_is_in_the_navigation() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"- ([\w/-]+\.md)$", config, re.MULTILINE))
    pages = {str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")}
    books = {f"cookbook/{p.stem}.md" for p in (ROOT / "docs" / "cookbook").glob("*.ipynb")}
    assert listed == pages | books


def test_the_site_builds(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"(https?://[^\"]*)\"", text)
        assert not [f for f in fetched if "canonical" not in f], (page, fetched)
