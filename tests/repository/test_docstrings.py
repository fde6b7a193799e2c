"""Every public function, method and class of passes, backends and runtime says what it does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("passes", "backends", "runtime")
# What a table's rule does is said by its primitive's docstring and by the table's contract.
TABLES = frozenset(
    ("jvp", "transpose", "batching", "partial_eval", "reference", "lowering", "rule", "rule_of", "_rule")
)
# What a subclass of a documented class does in its place.
OVERRIDES = frozenset(
    ("Pass.apply", "Trace.bind", "Trace.capture", "Node.read", "Node.inputs", "Node.cost", "Node.lane", "Node.varies")
)


def is_a_rule(node: ast.AST) -> bool:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    names = {d.func.id for d in decorators if isinstance(d, ast.Call) and isinstance(d.func, ast.Name)}
    return bool(names & TABLES)


def is_an_overload(node: ast.AST) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "overload" for d in getattr(node, "decorator_list", []))


def overrides(node: ast.AST, parent: ast.AST) -> bool:
    bases: list[ast.expr] = getattr(parent, "bases", [])
    return any(isinstance(b, ast.Name) and f"{b.id}.{getattr(node, 'name', '')}" in OVERRIDES for b in bases)


def undocumented(node: ast.Module | ast.ClassDef, name: str) -> Iterator[str]:
    """The public definitions within a node that have no docstring."""
    for inner in node.body:
        if not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or inner.name.startswith("_"):
            continue
        exempt = is_a_rule(inner) or is_an_overload(inner) or overrides(inner, node)
        if not exempt and ast.get_docstring(inner) is None:
            yield f"{name}:{inner.lineno}: {inner.name}"
        if isinstance(inner, ast.ClassDef):
            yield from undocumented(inner, name)


def test_public_functions_have_docstrings() -> None:
    found: list[str] = []
    for file in (f for folder in FOLDERS for f in sorted((ROOT / folder).rglob("*.py"))):
        name = file.relative_to(ROOT).as_posix()
        found += undocumented(ast.parse(file.read_text(encoding="utf-8")), name)
    assert not found, f"{len(found)} without a docstring:\n" + "\n".join(found)
