"""What is public in ir, passes, backends, runtime and frontend says what it does, and which errors it raises."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("ir", "passes", "backends", "runtime", "frontend")
# What a table's rule does is said by its primitive's docstring and by the table's contract.
TABLES = frozenset(
    ("jvp", "transpose", "batching", "partial_eval", "reference", "lowering", "counterpart", "rule", "rule_of", "_rule")
)
# What a subclass of a documented class does in its place, and raises.
OVERRIDES = frozenset(
    ("Pass.apply", "Trace.bind", "Trace.capture", "Node.read", "Node.inputs", "Node.cost", "Node.lane", "Node.varies",
     *(f"Communicator.{name}" for name in ("reduce", "all_gather", "all_to_all", "reduce_scatter", "permute", "broadcast",
                                           "exchange", "group", "abort")))
)  # fmt: skip

# Errors that every function of a folder may raise, and where that is said.
UNNAMED = {"backends/kernels: NoKernel": "docs/kernels.md: whatever finds out that there is no kernel"}
# Methods that make an error to be raised.
MAKERS = {"unsupported": "UnsupportedError"}


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


def own(node: ast.AST) -> Iterator[ast.AST]:
    """What is within a function, and not within one that is defined in it."""
    for inner in ast.iter_child_nodes(node):
        if not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield inner
            yield from own(inner)


def raised(function: ast.AST) -> set[str]:
    """The classes of the errors that a function raises itself.

    Not those of errors that it was given and hands on (``raise error``). A bare ``raise NotImplementedError`` is no error
    but an abstract method.
    """
    found: set[str] = set()
    for node in own(function):
        if isinstance(node, ast.Raise) and node.exc is not None:
            made = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            name = ast.unparse(made).rpartition(".")[2]
            name = MAKERS.get(name, name)
            abstract = name == "NotImplementedError" and made is node.exc
            if name[0].isupper() and not abstract:
                found.add(name)
    return found


def unnamed(node: ast.Module | ast.ClassDef, name: str) -> Iterator[str]:
    """The public functions within a node whose docstrings do not name an error that they raise.

    Private ones, and all of a private class, are named by those that call them. Python says what operators
    (``__len__``, ...) raise.
    """
    for inner in node.body:
        if not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or inner.name.startswith("_"):
            continue
        if isinstance(inner, ast.ClassDef):
            yield from unnamed(inner, name)
        elif not is_a_rule(inner) and not is_an_overload(inner) and not overrides(inner, node):
            words = set(re.findall(r"\w+", ast.get_docstring(inner) or ""))
            for error in sorted(raised(inner) - words):
                if not any(f"{folder.as_posix()}: {error}" in UNNAMED for folder in Path(name).parents):
                    yield f"{name}:{inner.lineno}: {inner.name}: {error}"


def test_raised_errors_are_found() -> None:
    source = """
def f(x):
    def inner():
        raise TypeError("of another function")
    if x:
        raise ValueError("named")
    if x > 1:
        raise errors.CompileError("of a module") from None
    try:
        raise ctx.unsupported("made", "by a method")
    except Exception as error:
        raise error
"""
    (f,) = ast.parse(source).body
    assert raised(f) == {"ValueError", "CompileError", "UnsupportedError"}
    abstract, refuses = ast.parse("def a(): raise NotImplementedError\ndef b(): raise NotImplementedError('this')").body
    assert raised(abstract) == set() and raised(refuses) == {"NotImplementedError"}


def test_docstrings_name_what_is_raised() -> None:
    found: list[str] = []
    for file in (f for folder in FOLDERS for f in sorted((ROOT / folder).rglob("*.py"))):
        name = file.relative_to(ROOT).as_posix()
        found += unnamed(ast.parse(file.read_text(encoding="utf-8")), name)
    assert not found, f"{len(found)} errors that no docstring names:\n" + "\n".join(found)
