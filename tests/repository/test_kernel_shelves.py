"""The kernels' shelves import each other as the table of docs/kernels.md says."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "backends" / "kernels"


def documented() -> dict[str, set[str]]:
    """What each shelf may import: what its line of the table names, and what those may import."""
    section = (ROOT / "docs" / "kernels.md").read_text().split("\n## Shelves\n")[1].split("\n## ")[0]
    allowed: dict[str, set[str]] = {}
    for shelf, imports in re.findall(r"^\| `(\w+)/` \|[^|]*\|([^|]*)\|$", section, re.MULTILINE):
        named = set(re.findall(r"`(\w+)`", imports))
        assert named <= set(allowed), f"{shelf} is above a shelf that it imports"
        allowed[shelf] = named.union(*(allowed[n] for n in named))
    return allowed


def imported(file: Path) -> set[str]:
    """The other shelves that a file on a shelf imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 2:
            found.update([node.module.split(".")[0]] if node.module else [a.name for a in node.names])
    return found


def test_shelves_import_as_documented() -> None:
    allowed = documented()
    shelves = {folder.name for folder in KERNELS.iterdir() if (folder / "__init__.py").exists()}
    assert set(allowed) == shelves
    wrong = [
        f"{file.relative_to(ROOT)} imports {other}"
        for shelf in sorted(shelves)
        for file in sorted((KERNELS / shelf).glob("*.py"))
        for other in sorted(imported(file) - allowed[shelf])
    ]
    assert not wrong, "\n".join(wrong)


def test_every_file_is_on_a_shelf() -> None:
    assert [file.name for file in KERNELS.glob("*.py")] == ["__init__.py"]


def test_that_there_is_no_kernel_is_caught_in_one_place() -> None:
    """Besides it: what keeps the exception, what adds to its reason, and the loop over the ways to cut a loop."""
    caught = {
        file.relative_to(ROOT / "backends").as_posix()
        for file in (ROOT / "backends").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ExceptHandler) and node.type is not None and "NoKernel" in ast.unparse(node.type)
    }
    assert caught == {
        "stablehlo/kernel_calls.py",
        "kernels/core/errors.py",
        "kernels/core/memoized.py",
        "kernels/loops/whole_loops.py",
    }


def public(of: object, module: str) -> Iterator[tuple[str, object]]:
    """The public functions, classes and methods that a module, or a class of it, defines."""
    for name, found in vars(of).items():
        found = getattr(found, "__func__", found)
        if name.startswith("_") or not (
            inspect.isfunction(found) or inspect.isclass(found) or isinstance(found, property)
        ):
            continue
        if getattr(found, "__module__", module) == module:
            yield name, getattr(of, name)
            if inspect.isclass(found):
                yield from ((f"{name}.{inner}", x) for inner, x in public(found, module))


def test_everything_public_says_what_it_is() -> None:
    """In a docstring of its own, or of what it overrides."""
    import quire.backends.kernels as kernels

    silent = []
    for info in pkgutil.walk_packages(kernels.__path__, "quire.backends.kernels."):
        module = importlib.import_module(info.name)
        silent += [f"{info.name}.{name}" for name, x in public(module, info.name) if not inspect.getdoc(x)]
        silent += [] if module.__doc__ else [info.name]
    assert not silent, "\n".join(silent)
