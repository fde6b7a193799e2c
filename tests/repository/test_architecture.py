"""The dependency direction of docs/architecture.md, and the packages that an installation holds."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What each folder may import of quire's packages.
ALLOWED = {
    "ir": {"ir"},
    "passes": {"ir", "passes"},
    "backends": {"ir", "backends"},
    "runtime": {"ir", "backends", "runtime"},
    "frontend": {"ir", "passes", "backends", "runtime", "frontend"},
    "tools": {"ir", "passes", "backends", "runtime", "frontend", "tools"},
}


def imported_packages(file: Path, folder: str) -> set[tuple[str, int]]:
    """The folders that a file imports from, with the line."""
    found: set[tuple[str, int]] = set()
    depth = len(file.relative_to(ROOT).parts) - 1  # 1 for a file directly in the folder
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            if node.level > depth:
                # above the folder: relative imports that leave it are named by their first part
                found.add((node.module.split(".")[0] if node.module else "?", node.lineno))
            elif node.level == 0 and node.module and node.module.split(".")[0] == "quire":
                parts = node.module.split(".")
                names = parts[1:2] or [alias.name for alias in node.names]
                found.update((n if n in ALLOWED else "frontend", node.lineno) for n in names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "quire":
                    name = parts[1] if len(parts) > 1 else "frontend"
                    found.add((name if name in ALLOWED else "frontend", node.lineno))
    return found


@pytest.mark.parametrize("folder", list(ALLOWED))
def test_imports_point_one_way(folder):
    wrong = [
        f"{file.relative_to(ROOT)}:{line} imports {package}"
        for file in sorted((ROOT / folder).rglob("*.py"))
        for package, line in sorted(imported_packages(file, folder))
        if package not in ALLOWED[folder]
    ]
    assert not wrong, "\n".join(wrong)


def test_a_wheel_holds_every_package():
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found: set[str] = set()
    for folder in ALLOWED:
        top = "quire" if folder == "frontend" else f"quire.{folder}"
        for init in (ROOT / folder).rglob("__init__.py"):
            inner = init.parent.relative_to(ROOT / folder).parts
            found.add(".".join((top, *inner)))
    assert listed == found


def test_importing_quire_does_not_import_the_compiler_jax_or_scipy():
    import subprocess
    import sys

    slow = ("jax", "iree.compiler.ir", "scipy", "matplotlib")
    # The reference backend folds constants: its rules import SciPy where they need it.
    code = (
        f"import sys; slow = {slow}; import quire; print([m for m in slow if m in sys.modules]); "
        "import quire.backends.reference; print([m for m in slow if m in sys.modules]); "
        "print(quire.numpy.ones(2) + 1, [m for m in ('jax', 'iree.compiler.ir', 'scipy') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.splitlines() == ["[]", "[]", "[2. 2.] []"]
