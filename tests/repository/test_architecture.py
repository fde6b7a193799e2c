"""The dependency direction of docs/architecture.md, circles of imports, and the packages that an installation holds."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Iterator
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


# -- circles ----------------------------------------------------------------------------------------------------------

#: Files that import each other, in a circle, are at most so many: they are read together.
LARGEST_CIRCLE = 4
#: What users import by name lies in frontend/ itself; everything else has a room.
MOST_TOP_LEVEL_FILES = 24
#: The rooms of frontend/, and the files beside them that rooms import: each may import what comes before it. The other
#: files of frontend/ are public modules, on top of all. docs/architecture.md has the same list.
ORDER = (
    *(
        "absent_names",
        "version",
        "tree_util",
        "watching",
        "arrays",
        "compiling",
        "eager",
        "transforms",
        "lax",
        "numpy",
        "flatten_util",
    ),
    *(
        "random",
        "nn",
        "scipy",
        "example_libraries",
        "debug",
        "experimental",
        "importers",
        "extend",
        "interpreters",
        "kernels",
        "ffi",
        "export",
        "as_jax",
    ),
)


@functools.cache
def modules() -> dict[str, Path]:
    """All modules of quire by name."""
    found: dict[str, Path] = {}
    for folder in ALLOWED:
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = [*file.relative_to(ROOT).with_suffix("").parts]
            inner = (parts[1:] if folder == "frontend" else parts)[: -1 if parts[-1] == "__init__" else None]
            found[".".join(("quire", *inner))] = file
    return found


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes below, but what only a type checker reads: imports inside functions are among them."""
    for_types = isinstance(tree, ast.If) and ast.unparse(tree.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
    for child in tree.orelse if for_types else ast.iter_child_nodes(tree):
        yield child
        yield from nodes(child)


def imports_of(name: str) -> set[str]:
    """The modules of quire that a module imports, at once or late."""
    file = modules()[name]
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    found: set[str] = set()
    for node in nodes(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                found.add(inner if inner in modules() else origin)
    return {m for m in found if m in modules()} - {name}


Graph = dict[str, set[str]]


@functools.cache
def import_graph() -> Graph:
    return {name: imports_of(name) for name in modules()}


def unit_of(name: str) -> str:
    """The subfolder of its package in which a module lies; the module itself, if it lies in the package's own folder."""
    folder, *inner = modules()[name].relative_to(ROOT).parts
    return f"{folder}/{inner[0]}"


def contracted(graph: Graph) -> Graph:
    """The graph of `unit_of`."""
    found: Graph = {}
    for name, imported in graph.items():
        unit = unit_of(name)
        found.setdefault(unit, set()).update(u for u in map(unit_of, imported) if u != unit)
    return found


def circles(graph: Graph) -> list[list[str]]:
    """The strongly connected components of more than one node, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for after in sorted(graph[node]):
            if after not in index:
                visit(after)
            if after in stack:
                low[node] = min(low[node], low[after])
        if low[node] == index[node]:
            component = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(component) > 1:
                found.append(sorted(component))

    for node in graph:
        if node not in index:
            visit(node)
    return found


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d", "f"}, "f": set[str]()}
    assert sorted(circles(graph)) == [["a", "b", "c"], ["d", "e"]]
    assert "quire.backends.reference" in import_graph()["quire.eager.evaluation"]  # which imports it late


def test_no_large_circle_of_files():
    large = [circle for circle in circles(import_graph()) if len(circle) > LARGEST_CIRCLE]
    assert not large, "\n".join(f"{len(circle)} files import each other: {', '.join(circle)}" for circle in large)


def test_no_circle_of_folders():
    # Files beside each other, of which no folder is one, may be a small circle: ir's jaxpr, primitive and printer are.
    found = [c for c in circles(contracted(import_graph())) if not all(re.match(r"(?!frontend).*\.py$", u) for u in c)]
    assert not found, "\n".join(f"these import each other: {', '.join(circle)}" for circle in found)


def test_the_rooms_of_the_frontend_have_an_order():
    place = {name: i for i, name in enumerate(ORDER)}
    wrong: list[str] = []
    for name, imported in import_graph().items():
        folder, _, unit = unit_of(name).removesuffix(".py").partition("/")
        if folder != "frontend" or unit not in place or unit == "as_jax":  # shows the public modules under JAX's names
            continue
        for other in imported:
            beside, _, below = unit_of(other).removesuffix(".py").partition("/")
            if beside == "frontend" and place.get(below, len(ORDER)) > place[unit]:
                wrong.append(f"{name} imports {other}, which is not below it")
    assert not wrong, "\n".join(sorted(wrong))
    rooms = {file.parent.name for file in (ROOT / "frontend").glob("*/__init__.py")}
    assert rooms < set(ORDER)
    assert " < ".join(ORDER) in " ".join((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split())


def test_the_frontend_itself_holds_what_users_import():
    files = sorted(file.name for file in (ROOT / "frontend").glob("*.py"))
    assert len(files) <= MOST_TOP_LEVEL_FILES, ", ".join(files)


# -- installation -----------------------------------------------------------------------------------------------------


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
