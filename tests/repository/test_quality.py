"""Lint, types and generated pages are clean."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_ruff_is_clean():
    result = run(sys.executable, "-m", "ruff", "check", "--output-format=concise", ".")
    assert result.returncode == 0, result.stdout + result.stderr


def test_pyright_is_clean():
    version = run(sys.executable, "-m", "pyright", "--version")
    if version.returncode != 0:
        pytest.skip(f"pyright cannot be started here: {version.stderr.strip()[-200:]}")
    result = run(sys.executable, "-m", "quire.tools.check_types")
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-1000:]


def test_the_table_of_primitives_has_no_unexplained_gap():
    from quire.tools.rule_table import gaps

    assert gaps() == []


def test_the_table_of_primitives_is_up_to_date():
    result = run(sys.executable, "-m", "quire.tools.rule_table", "--check")
    assert result.returncode == 0, result.stderr


def test_the_table_of_names_is_up_to_date_and_every_absent_name_has_a_reason():
    pytest.importorskip("jax")
    result = run(sys.executable, "-m", "quire.tools.name_table", "--check")
    assert result.returncode == 0, result.stderr


def test_every_package_is_installed():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    found = {
        ".".join([name, *file.parent.relative_to(ROOT / folder).parts])
        for name, folder in settings["package-dir"].items()
        for file in (ROOT / folder).rglob("__init__.py")
    }
    assert found == set(settings["packages"])
